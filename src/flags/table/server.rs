//! Flags of the server itself.

use std::time::Duration;

use clef_http::{ApiKey, TlsFiles, ValidationStatus};

use crate::flags::flag::{Flag, Group, Problem, Set};
use crate::flags::settings::{Action, Colors, Hooks, Settings};
use crate::flags::values::{bytes, integer, list, number, on_off, put};

/// Flags that llama.cpp's programs have in common. In the order of help.
pub(super) const COMMON: &[Flag] = &[
    Flag::switch(&["--help", "-h", "--usage"], "Print this help", |s, _| act(s, Action::Help)),
    Flag::switch(&["--version"], "Print version, git revision, llama.cpp build and backends", |s, _| {
        act(s, Action::Version)
    }),
    Flag::switch(&["--list-devices"], "Print the devices that a model can be placed on", |s, _| {
        act(s, Action::ListDevices)
    }),
    Flag::value(
        &["--completions"],
        "SHELL",
        "Print completions for a shell: bash, elvish, fish, powershell or zsh",
        |s, v| {
            let shell = v.parse().map_err(|_| "expected bash, elvish, fish, powershell or zsh".to_owned())?;
            act(s, Action::Completions(shell))
        },
    ),
    Flag::switch(&["--completion-bash"], "Print completions for bash", |s, _| {
        act(s, Action::Completions(clap_complete::Shell::Bash))
    })
    .hide(),
    Flag::switch(&["--man"], "Print the manual page, in roff", |s, _| act(s, Action::Man)),
    Flag::switch(&["--help-markdown"], "Print the table of flags for docs/server.md", |s, _| {
        act(s, Action::HelpMarkdown)
    })
    .hide(),
    Flag::switch(
        &["--warmup"],
        "Answer a small request before the first one comes [default: on a GPU, where the first one is slow]",
        |s, v| put(&mut s.warmup, on_off(v).map(Some)),
    )
    .off(&["--no-warmup"]),
    Flag::switch(&["--verbose", "-v", "--log-verbose"], "Log everything", |s, _| {
        s.log.verbosity = u32::MAX;
        Ok(())
    }),
    Flag::value(
        &["--verbosity", "-lv", "--log-verbosity"],
        "N",
        "How much to log: 1 errors, 2 warnings, 3 what happens, 4 llama.cpp's log too, 5 everything [default: 3]",
        |s, v| {
            let level = integer(v, -1..=i64::from(i32::MAX));
            put(&mut s.log.verbosity, level.map(|level| u32::try_from(level).unwrap_or(0)))
        },
    )
    .env("LLAMA_ARG_LOG_VERBOSITY"),
    Flag::switch(&["--log-disable"], "Log nothing", |s, _| {
        s.log.disabled = true;
        Ok(())
    }),
    Flag::value(&["--log-file"], "FILE", "Log to a file as well; it is appended to", |s, v| {
        put(&mut s.log.file, Ok(Some(v.into())))
    })
    .env("LLAMA_ARG_LOG_FILE"),
    Flag::switch(&["--log-jsonl"], "Log one JSON object a line, to standard output and to --log-file", |s, v| {
        put(&mut s.log.jsonl, on_off(v))
    })
    .off(&["--no-log-jsonl"])
    .env("LLAMA_ARG_LOG_JSONL"),
    Flag::when(&["--log-colors"], "Colours in the log: on, off or auto [default: auto]", |s, v| {
        put(&mut s.log.colors, colors(v))
    })
    .env("LLAMA_ARG_LOG_COLORS"),
    Flag::switch(&["--log-prefix"], "Level and origin in each line of the log; the default", |s, v| {
        put(&mut s.log.prefix, on_off(v))
    })
    .off(&["--no-log-prefix"])
    .env("LLAMA_ARG_LOG_PREFIX"),
    Flag::switch(&["--log-timestamps"], "The time in each line of the log; the default", |s, v| {
        put(&mut s.log.timestamps, on_off(v))
    })
    .off(&["--no-log-timestamps"])
    .env("LLAMA_ARG_LOG_TIMESTAMPS"),
];

/// The server's own. In the order of help.
pub(super) const FLAGS: &[Flag] = &[
    server(
        &["--host"],
        "HOST",
        "Address to listen on; a path that ends in .sock is a Unix socket [default: 127.0.0.1]",
        |s, v| put(&mut s.host, host(v)),
    )
    .env("LLAMA_ARG_HOST"),
    server(&["--port"], "PORT", "Port to listen on; 0 takes a free one and prints it [default: 8080]", |s, v| {
        put(&mut s.port, number(v, 0..=65_535).map(|port| port as u16))
    })
    .env("LLAMA_ARG_PORT"),
    server_switch(&["--reuse-port"], "Let other processes listen on the same port", |s, v| {
        put(&mut s.reuse_port, on_off(v))
    })
    .env("LLAMA_ARG_REUSE_PORT"),
    server(&["--api-key"], "KEY", "Key that clients must show; several are separated by commas", |s, v| {
        s.http.api_keys.extend(keys(v)?);
        Ok(())
    })
    .env("LLAMA_API_KEY"),
    server(&["--api-key-file"], "FILE", "File of keys, one a line; lines that start with # are left out", |s, v| {
        s.http.api_keys.extend(keys_of(v)?);
        Ok(())
    })
    .env("LLAMA_ARG_API_KEY_FILE"),
    server(&["--ssl-key-file"], "FILE", "Private key in PEM form, to serve TLS", |s, v| {
        put(&mut s.tls_key, Ok(Some(v.into())))
    })
    .env("LLAMA_ARG_SSL_KEY_FILE"),
    server(&["--ssl-cert-file"], "FILE", "Certificate in PEM form, to serve TLS", |s, v| {
        put(&mut s.tls_certificates, Ok(Some(v.into())))
    })
    .env("LLAMA_ARG_SSL_CERT_FILE"),
    server(&["--api-prefix"], "PREFIX", "What stands before every path, as /clef", |s, v| {
        put(&mut s.http.api_prefix, api_prefix(v))
    })
    .env("LLAMA_ARG_API_PREFIX"),
    server(
        &["--cors-origins"],
        "ORIGINS",
        "Origins that browsers may call from, separated by commas; * = any, localhost = this machine's [default: none]",
        |s, v| put(&mut s.cors_origins, Ok(list(v).map(str::to_owned).collect())),
    )
    .env("LLAMA_ARG_CORS_ORIGINS"),
    server(
        &["--cors-methods"],
        "METHODS",
        "Methods that browsers may use [default: GET, POST, DELETE, OPTIONS]",
        |s, v| put(&mut s.cors.methods, Ok(v.to_owned())),
    )
    .env("LLAMA_ARG_CORS_METHODS"),
    server(&["--cors-headers"], "HEADERS", "Headers that browsers may send [default: *]", |s, v| {
        put(&mut s.cors.headers, Ok(v.to_owned()))
    })
    .env("LLAMA_ARG_CORS_HEADERS"),
    server_switch(&["--cors-credentials"], "Let browsers send credentials; the default", |s, v| {
        put(&mut s.cors.credentials, on_off(v))
    })
    .off(&["--no-cors-credentials"])
    .env("LLAMA_ARG_CORS_CREDENTIALS"),
    server(
        &["--timeout", "-to"],
        "N",
        "Seconds that a client may take for a body or for accepting its answer, beyond what 64 KiB a second take \
         [default: 20]",
        |s, v| {
            let limit = Duration::from_secs(u64::from(number(v, 1..=u32::MAX)?));
            // A longer time is for slow bodies. Whoever has not even asked for anything gets the usual one.
            s.http.header_timeout = s.http.header_timeout.min(limit);
            (s.http.body_timeout, s.http.write_timeout) = (limit, limit);
            Ok(())
        },
    )
    .env("LLAMA_ARG_TIMEOUT"),
    server(
        &["--timeout-shutdown"],
        "N",
        "Seconds that running requests may go on after the first SIGTERM or SIGINT [default: 30]",
        |s, v| put(&mut s.http.shutdown_timeout, number(v, 0..=86_400).map(|n| Duration::from_secs(n.into()))),
    )
    .env("CLEF_ARG_TIMEOUT_SHUTDOWN"),
    server(
        &["--threads-http"],
        "N",
        "Threads for connections; -1 = one per core, four at the most [default: -1]",
        |s, v| {
            let count = integer(v, -1..=512);
            put(&mut s.threads_http, count.map(|count| usize::try_from(count).ok().filter(|&count| count > 0)))
        },
    )
    .env("LLAMA_ARG_THREADS_HTTP"),
    server(&["--max-body-size"], "BYTES", "Longest body, before and after decompression [default: 100M]", |s, v| {
        put(&mut s.http.max_body_bytes, bytes(v))
    })
    .env("CLEF_ARG_MAX_BODY_SIZE"),
    server(&["--max-connections"], "N", "Connections held at once; more wait [default: 16384]", |s, v| {
        put(&mut s.http.max_connections, number(v, 1..=1 << 20).map(|count| count as usize))
    })
    .env("CLEF_ARG_MAX_CONNECTIONS"),
    server(
        &["--queue-size"],
        "N",
        "Requests that may be admitted and unanswered at once; one more gets 429 [default: 256]",
        |s, v| put(&mut s.queue_size, number(v, 1..=1 << 20).map(|count| count as usize)),
    )
    .env("CLEF_ARG_QUEUE_SIZE"),
    server(
        &["--answer-cache"],
        "N",
        "Answers to keep, for requests that ask just the same again; 0 = none [default: 0]",
        |s, v| put(&mut s.answer_cache, number(v, 0..=1 << 24).map(|count| count as usize)),
    )
    .env("CLEF_ARG_ANSWER_CACHE"),
    server(
        &["--validation-status"],
        "CODE",
        "Status for bodies that are not valid: 422, or 400 as llama-server [default: 422]",
        |s, v| put(&mut s.http.validation_status, validation_status(v)),
    )
    .env("CLEF_ARG_VALIDATION_STATUS"),
    server_switch(&["--metrics"], "Answer GET /metrics, for Prometheus", |s, v| put(&mut s.http.metrics, on_off(v)))
        .env("LLAMA_ARG_ENDPOINT_METRICS"),
    server_switch(&["--props"], "Answer POST /props", |s, v| put(&mut s.http.props, on_off(v)))
        .env("LLAMA_ARG_ENDPOINT_PROPS"),
    server_switch(&["--slots"], "Answer GET /slots; the default", |s, v| put(&mut s.http.slots, on_off(v)))
        .off(&["--no-slots"])
        .env("LLAMA_ARG_ENDPOINT_SLOTS"),
    server(&["--debug-hooks"], "HOOKS", "Faults on purpose, for tests", |s, v| put(&mut s.hooks, Hooks::parse(v)))
        .hide(),
];

const fn server(names: &'static [&'static str], value: &'static str, help: &'static str, set: Set) -> Flag {
    Flag::value(names, value, help, set).of(Group::Server)
}

const fn server_switch(names: &'static [&'static str], help: &'static str, set: Set) -> Flag {
    Flag::switch(names, help, set).of(Group::Server)
}

/// The first thing that was asked for is done; it ends the program.
fn act(settings: &mut Settings, action: Action) -> Result<(), Problem> {
    settings.action.get_or_insert(action);
    Ok(())
}

fn host(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected an address or the path of a Unix socket".to_owned()),
        several if several.contains(',') => {
            Err("expected one address; several are not available in this version".to_owned())
        }
        host => Ok(host.to_owned()),
    }
}

fn api_prefix(text: &str) -> Result<String, String> {
    match text.trim_matches('/') {
        "" => Ok(String::new()),
        prefix if prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%".contains(&byte)) => {
            Ok(format!("/{prefix}"))
        }
        _ => Err("expected a path, as /clef".to_owned()),
    }
}

/// A variable that came out empty must not open the server to everybody.
fn keys(text: &str) -> Result<Vec<ApiKey>, String> {
    let keys: Vec<ApiKey> = list(text).filter_map(ApiKey::new).collect();
    if keys.is_empty() { Err("expected a key".to_owned()) } else { Ok(keys) }
}

fn keys_of(path: &str) -> Result<Vec<ApiKey>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let keys: Vec<ApiKey> = text.lines().filter(|line| !line.starts_with('#')).filter_map(ApiKey::new).collect();
    if keys.is_empty() { Err("the file holds no key".to_owned()) } else { Ok(keys) }
}

fn colors(text: &str) -> Result<Colors, String> {
    match text {
        "auto" | "-1" => Ok(Colors::Auto),
        other => match on_off(other) {
            Ok(true) => Ok(Colors::On),
            Ok(false) => Ok(Colors::Off),
            Err(_) => Err("expected on, off or auto".to_owned()),
        },
    }
}

fn validation_status(text: &str) -> Result<ValidationStatus, String> {
    match text {
        "422" => Ok(ValidationStatus::Unprocessable),
        "400" => Ok(ValidationStatus::BadRequest),
        _ => Err("expected 422 or 400".to_owned()),
    }
}

/// Both files, or neither.
pub(in crate::flags) fn tls(settings: &Settings) -> Result<Option<TlsFiles>, String> {
    match (&settings.tls_certificates, &settings.tls_key) {
        (Some(certificates), Some(key)) => Ok(Some(TlsFiles { certificates: certificates.clone(), key: key.clone() })),
        (None, None) => Ok(None),
        (Some(_), None) => Err("--ssl-cert-file needs --ssl-key-file".to_owned()),
        (None, Some(_)) => Err("--ssl-key-file needs --ssl-cert-file".to_owned()),
    }
}
