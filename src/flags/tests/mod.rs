//! Tests over the whole table, and of the rules that it is read by.

mod llama_server;

use std::collections::BTreeSet;
use std::ffi::OsString;

use clef_http::{Listen, ValidationStatus};

use self::llama_server::LLAMA_SERVER;
use super::*;

/// llama-server's flags that mean other models: here they are unknown ones.
const LEFT_OUT: [&str; 11] = [
    "--embd-gemma-default",
    "--fim-qwen-1.5b-default",
    "--fim-qwen-3b-default",
    "--fim-qwen-7b-default",
    "--fim-qwen-7b-spec",
    "--fim-qwen-14b-spec",
    "--fim-qwen-30b-default",
    "--gpt-oss-20b-default",
    "--gpt-oss-120b-default",
    "--vision-gemma-4b-default",
    "--vision-gemma-12b-default",
];

/// Flags of llama-server's releases before b11434.
const OLDER: [&str; 7] = ["--mlock", "--mmap", "--no-mmap", "--direct-io", "-dio", "--no-direct-io", "-ndio"];
const OLDER_ENV: [&str; 3] = ["LLAMA_ARG_MLOCK", "LLAMA_ARG_MMAP", "LLAMA_ARG_DIO"];

/// Flags of this project.
const OURS: [&str; 12] = [
    "--head",
    "--neutral-ids",
    "--completions",
    "--man",
    "--help-markdown",
    "--timeout-shutdown",
    "--max-body-size",
    "--max-connections",
    "--queue-size",
    "--answer-cache",
    "--validation-status",
    "--debug-hooks",
];

fn read(line: &str) -> Result<Settings, UsageError> {
    read_with(line, &[])
}

fn read_with(line: &str, environment: &[(&str, &str)]) -> Result<Settings, UsageError> {
    let variable = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
    parse(line.split_whitespace().map(OsString::from), variable)
}

fn refusal(line: &str) -> String {
    read(line).expect_err(line).to_string()
}

fn values(flag: &Flag) -> usize {
    match flag.takes {
        Takes::Nothing => 0,
        Takes::Value(_) | Takes::When => 1,
        Takes::Two(..) => 2,
    }
}

#[test]
fn no_spelling_and_no_variable_means_two_flags() {
    let mut names = BTreeSet::new();
    let mut variables = BTreeSet::new();
    for flag in flags() {
        for (name, _) in flag.spellings() {
            assert!(names.insert(name), "{name} twice");
            assert!(name.starts_with('-') && !name.contains('_') && !name.contains('='), "{name}");
        }
        assert!(flag.name().starts_with("--"), "{}: the first spelling is the long one", flag.name());
        for variable in flag.env.map(str::to_owned).into_iter().chain(flag.off_env()) {
            assert!(variables.insert(variable.clone()), "{variable} twice");
        }
    }
}

#[test]
fn variables_have_llama_cpps_shape_or_ours() {
    /// llama.cpp's own exceptions.
    const OTHERS: [&str; 3] = ["LLAMA_API_KEY", "HF_TOKEN", "MTMD_BACKEND_DEVICE"];
    for flag in flags() {
        let Some(name) = flag.env else { continue };
        let prefix = if OURS.contains(&flag.name()) { "CLEF_ARG_" } else { "LLAMA_ARG_" };
        assert!(name.starts_with(prefix) || OTHERS.contains(&name), "{}: {name}", flag.name());
        assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
    }
}

#[test]
fn every_flag_that_help_shows_says_what_it_does() {
    for flag in flags().filter(|flag| !flag.hidden) {
        assert!(flag.help.len() > 3 && !flag.help.ends_with('.'), "{}: {:?}", flag.name(), flag.help);
        assert!(flag.help.starts_with(|first: char| !first.is_whitespace()), "{}", flag.name());
    }
}

#[test]
fn every_flag_of_llama_server_is_known_with_its_spellings_variable_and_values() {
    for (names, off, env, count) in LLAMA_SERVER {
        let first = names.split(' ').next().expect("a flag has a name");
        if LEFT_OUT.contains(&first) {
            assert!(find(first).is_none(), "{first}");
            continue;
        }
        let (flag, _) = find(first).unwrap_or_else(|| panic!("{first} is not in the table"));
        let spellings: BTreeSet<_> = flag.spellings().collect();
        let expected: BTreeSet<_> = (names.split(' ').map(|name| (name, true)))
            .chain(off.split(' ').filter(|name| !name.is_empty()).map(|name| (name, false)))
            .collect();
        assert_eq!(spellings, expected, "{first}");
        assert_eq!(flag.env.unwrap_or_default(), *env, "{first}");
        assert_eq!(values(flag), *count, "{first}");
    }
}

#[test]
fn every_flag_is_llama_servers_an_older_one_of_its_or_ours() {
    let all: BTreeSet<&str> =
        LLAMA_SERVER.iter().flat_map(|(names, off, ..)| names.split(' ').chain(off.split(' '))).collect();
    let variables: BTreeSet<&str> = LLAMA_SERVER.iter().map(|(_, _, env, _)| *env).collect();
    for flag in flags() {
        for (name, _) in flag.spellings() {
            assert!(all.contains(name) || OLDER.contains(&name) || OURS.contains(&name), "{name}");
        }
        if let Some(env) = flag.env.filter(|env| env.starts_with("LLAMA_")) {
            assert!(variables.contains(env) || OLDER_ENV.contains(&env), "{env}");
        }
    }
    for name in OURS.iter().chain(&OLDER) {
        assert!(find(name).is_some() && !all.contains(name), "{name}");
    }
}

#[test]
fn claps_command_is_sound_and_shows_each_flag_once() {
    command().debug_assert();
    let help = command().render_help().to_string();
    for flag in flags().filter(|flag| !flag.hidden) {
        for (name, _) in flag.spellings() {
            assert!(help.contains(name), "{name}");
        }
        assert!(flag.env.is_none_or(|env| help.contains(env)), "{:?}", flag.env);
    }
    assert!(!help.contains("--debug-hooks") && !help.contains("--lora"));
}

#[test]
fn a_start_line_of_llama_servers_is_read_as_llama_server_reads_it() {
    let line = "-m F --host 127.0.0.1 --port 0 -ngl 99 -c 4096 -np 4 -fa on --metrics --jinja --temp 0.7 -ctk q8_0 \
                -ctv q8_0 -ub 256 -b 1024 -t 3 -tb 5 -a name,other --no-slots --props --api-key a,b -to 600 --no-warmup \
                --top-k -1 --chat-template-kwargs {} -lv 4 --mlock -ctxcp 3 --reasoning-format none --no-ui";
    let settings = read(line).expect(line);
    let model = &settings.model;
    assert_eq!(model.model.as_deref(), Some("F".as_ref()));
    assert_eq!(model.alias.as_deref(), Some("name"));
    assert_eq!((model.ctx_size, model.batch_size, model.ubatch_size), (4096, 1024, Some(256)));
    assert_eq!((model.threads, model.threads_batch, model.gpu_layers), (Some(3), Some(5), 99));
    assert_eq!(
        settings.ignored,
        ["--jinja", "--temp", "--top-k", "--chat-template-kwargs", "-ctxcp", "--reasoning-format", "--no-ui"]
    );
    assert!(settings.without_effect.is_empty());
    assert_eq!(model.placement.load_mode, clef_api::LoadMode::Mlock);
    assert_eq!((settings.warmup, settings.log.verbosity), (Some(false), 4));
    let config = settings.server_config().expect("nothing contradicts");
    assert_eq!(config.listen, Listen::new("127.0.0.1", 0));
    assert!(config.metrics && config.props && !config.slots && config.api_keys.len() == 2);
    assert_eq!((config.body_timeout.as_secs(), config.header_timeout.as_secs()), (600, 20));
}

#[test]
fn without_flags_everything_is_as_llama_server_has_it() {
    let config = read("").expect("no flags").server_config().expect("nothing contradicts");
    assert_eq!(config.listen, Listen::new("127.0.0.1", 8080));
    assert!(config.slots && !config.metrics && !config.props && config.cors.is_none() && config.tls.is_none());
    assert_eq!(config.max_body_bytes, 100 << 20);
    assert_eq!(config.shutdown_timeout.as_secs(), 30);
    assert_eq!(config.validation_status, ValidationStatus::Unprocessable);
}

#[test]
fn every_accepted_flag_takes_as_many_values_as_llama_server_gives_it() {
    for flag in flags().filter(|flag| matches!(flag.effect, Effect::Ignored)) {
        for (name, _) in flag.spellings() {
            let line = format!("{name} {} --port 7", vec!["-1"; values(flag)].join(" "));
            let settings = read(&line).expect(&line);
            assert_eq!(settings.port, 7, "{line}");
            assert_eq!(settings.ignored, [name], "{line}");
        }
    }
}

#[test]
fn unknown_flags_end_with_llama_servers_words_and_a_hint() {
    assert_eq!(refusal("--prot 80"), "error: invalid argument: --prot\ndid you mean --port?");
    assert_eq!(refusal("--ctx_sice 80"), "error: invalid argument: --ctx-sice\ndid you mean --ctx-size?");
    assert_eq!(refusal("-nlg 80"), "error: invalid argument: -nlg\ndid you mean -ngl?");
    assert_eq!(refusal("--frobnicate"), "error: invalid argument: --frobnicate\nclef-server --help lists all flags");
    assert_eq!(refusal("file.gguf"), "error: invalid argument: file.gguf\nclef-server --help lists all flags");
}

#[test]
fn flags_that_would_change_answers_are_refused_like_unknown_ones() {
    for flag in flags().filter(|flag| matches!(flag.effect, Effect::Foreign)) {
        for (name, _) in flag.spellings() {
            let words = refusal(&format!("{name} x y"));
            let mut lines = words.lines();
            assert_eq!(lines.next(), Some(format!("error: invalid argument: {name}").as_str()));
            assert_eq!(lines.count(), 1, "{words}");
        }
    }
}

#[test]
fn what_is_not_built_and_would_be_missed_is_refused() {
    for line in ["--docker-repo x", "--models-dir x"] {
        let words = refusal(line);
        assert!(words.ends_with("is not available in this version") && words.lines().count() == 1, "{words}");
    }
    for line in ["--no-mmproj", "--offline", "-hft x", "-np 1", "--cache-ram 0"] {
        let settings = read(line).expect(line);
        assert!(settings.ignored.is_empty() && settings.without_effect.is_empty(), "{line}");
    }
    let environment = [("LLAMA_ARG_DOCKER_REPO", "x")];
    let words = read_with("", &environment).expect_err("refused").to_string();
    assert_eq!(words, "error: LLAMA_ARG_DOCKER_REPO \"x\" is not available in this version");
}

#[test]
fn what_changes_no_answer_is_checked_and_named() {
    let line = "--cache-ram 100 -cb --poll 50";
    let settings = read(line).expect(line);
    assert_eq!(settings.without_effect, ["-cb", "--poll"]);
    for line in ["--cache-ram much", "--image-max-tokens -1"] {
        assert!(refusal(line).contains("expected"), "{line}");
    }
}

#[test]
fn a_model_is_named_once_wherever_it_is() {
    let flags = |line: &str| read(line).expect(line).model;
    let fetched = flags("-hf user/model:Q8_0 -hff x.gguf -hft secret --offline");
    assert_eq!(fetched.fetch.repository.as_deref(), Some("user/model:Q8_0"));
    assert!(fetched.fetches() && fetched.fetch.offline && fetched.check_source().is_ok());
    assert!(!format!("{fetched:?}").contains("secret"));
    assert!(!flags("-m x.gguf -hft secret").fetches());
    assert!(flags("-m x.gguf -mmu http://x/y.gguf").fetches());
    assert!(!flags("-m x.gguf -mmu http://x/y.gguf --no-mmproj").fetches());
    for line in ["-m x.gguf -hf a/b", "-mu http://x -hf a/b", "-m x.gguf -mu http://x", "-m x.gguf -hff y.gguf"] {
        assert!(flags(line).check_source().is_err(), "{line}");
    }
    let here = crate::Fetched {
        model: Some("cache/x.gguf".into()),
        projector: Some("cache/p.gguf".into()),
        name: Some("user/model".into()),
    };
    let opened = flags("-hf user/model").with(here.clone());
    assert_eq!((opened.alias.as_deref(), opened.fetches()), (Some("user/model"), false));
    let options = opened.options().model;
    assert_eq!(options.projector, Some("cache/p.gguf".into()));
    assert_eq!(flags("-hf a/b -mm mine.gguf -a name").with(here).options().model.projector, Some("mine.gguf".into()));
}

#[test]
fn where_a_model_is_put_reaches_its_options() {
    use clef_api::{LoadMode, Numa, Placement, SplitMode};
    let options = |line: &str| read(line).expect(line).model.options().model;
    let line = "-dev none -ngl 99 -sm row -ts 3,1 -mg 1 -lm mlock --numa isolate -fit off";
    let expected = Placement {
        devices: Some(Vec::new()),
        split_mode: SplitMode::Row,
        tensor_split: vec![3.0, 1.0],
        main_gpu: 1,
        load_mode: LoadMode::Mlock,
        numa: Some(Numa::Isolate),
    };
    let all = options(line);
    assert_eq!((all.placement, all.must_fit, all.gpu_layers), (expected, false, 0));
    let nothing = options("-ngl 99");
    assert_eq!((nothing.placement, nothing.must_fit, nothing.gpu_layers), (Placement::default(), true, 99));
    for (line, mode) in [
        ("--mlock", LoadMode::Mlock),
        ("--mmap", LoadMode::Mmap),
        ("--no-mmap", LoadMode::None),
        ("-lm mmap+mlock", LoadMode::MmapMlock),
        ("--load-mode dio", LoadMode::DirectIo),
        ("--mlock -lm auto", LoadMode::Auto),
    ] {
        assert_eq!(options(line).placement.load_mode, mode, "{line}");
    }
    assert_eq!(options("-ts 1/2").placement.tensor_split, [1.0, 2.0]);
    let environment = [("LLAMA_ARG_DEVICE", "none"), ("LLAMA_ARG_MLOCK", "0"), ("LLAMA_ARG_NO_MMAP", "x")];
    let settings = read_with("", &environment).expect("known");
    assert_eq!(settings.model.placement.devices, Some(Vec::new()));
    assert_eq!(settings.model.placement.load_mode, LoadMode::None);
}

#[test]
fn places_that_there_are_not_are_refused() {
    for (line, words) in [
        (
            "-dev CUDA77",
            "error: -dev \"CUDA77\": no device \"CUDA77\" for layers; expected none or devices of clef-server --list-devices",
        ),
        (
            "-dev CPU",
            "error: -dev \"CPU\": no device \"CPU\" for layers; expected none or devices of clef-server --list-devices",
        ),
        ("-dev ,", "error: -dev \",\": expected none or devices of clef-server --list-devices"),
        ("-sm sideways", "error: -sm \"sideways\": expected one of none, layer, row, tensor"),
        ("-mg x", "error: -mg \"x\": expected a whole number from 0 to 255"),
        ("-lm fast", "error: -lm \"fast\": expected one of auto, none, mmap, mlock, mmap+mlock, dio"),
        ("--numa here", "error: --numa \"here\": expected one of distribute, isolate, numactl"),
        ("-fit perhaps", "error: -fit \"perhaps\": expected on or off"),
        ("-ts 1,x", "error: -ts \"1,x\": expected numbers from 0 on, separated by commas, and one of them more than 0"),
        ("-ts 0", "error: -ts \"0\": expected numbers from 0 on, separated by commas, and one of them more than 0"),
    ] {
        assert_eq!(refusal(line), words);
    }
}

#[test]
fn metadata_is_overridden_by_several_flags_together() {
    let settings = read("--override-kv a.b=int:1,c=str:x --override-kv d=bool:false").expect("known");
    let shown: Vec<String> =
        settings.model.options().model.overrides.iter().map(|change| format!("{}={change}", change.key())).collect();
    assert_eq!(shown, ["a.b=1", "c=\"x\"", "d=false"]);
    assert_eq!(
        refusal("--override-kv a=int:1 --override-kv a=int:2"),
        "error: --override-kv \"a=int:2\": a is there twice"
    );
    assert_eq!(
        refusal("--override-kv a=int"),
        "error: --override-kv \"a=int\": expected KEY=TYPE:VALUE with a type of int, float, bool or str"
    );
}

#[test]
fn a_projector_is_given_and_taken_away() {
    let settings =
        read("--mmproj x.gguf --image-min-tokens 4 --image-max-tokens 0 --no-mmproj-offload").expect("known");
    let options = settings.model.options().model;
    assert_eq!(options.projector.as_deref(), Some(std::path::Path::new("x.gguf")));
    assert_eq!((options.image_min_tokens, options.image_max_tokens, options.projector_offload), (Some(4), None, false));
    let blind = read_with("--no-mmproj", &[("LLAMA_ARG_MMPROJ", "x.gguf")]).expect("known");
    assert_eq!(blind.model.options().model.projector, None);
    assert_eq!(read("-mm x.gguf").expect("known").model.projector, Some("x.gguf".into()));
}

#[test]
fn values_are_checked_and_named() {
    for (line, words) in [
        ("--port 65536", "error: --port \"65536\": expected a whole number from 0 to 65535"),
        ("-c minus", "error: -c \"minus\": expected a whole number from 0 to 67108864"),
        ("--port", "error: --port needs a value: PORT"),
        ("--metrics=yes", "error: --metrics takes no value"),
        ("--slots_=1", "error: invalid argument: --slots-\ndid you mean --slots?"),
        ("-fa perhaps", "error: -fa \"perhaps\": expected on, off or auto"),
        ("--validation-status 500", "error: --validation-status \"500\": expected 422 or 400"),
        ("--host a,b", "error: --host \"a,b\": expected one address; several are not available in this version"),
        ("--completions tcsh", "error: --completions \"tcsh\": expected bash, elvish, fish, powershell or zsh"),
    ] {
        assert_eq!(refusal(line), words);
    }
    assert!(refusal("--api-key-file /nonexistent").contains("cannot be read"));
    // What an unset variable leaves must not open the server.
    assert!(parse(["--api-key", ""].map(OsString::from), |_| None).is_err());
    assert!(read("--ssl-key-file x").expect("known").server_config().is_err());
}

#[test]
fn a_key_is_not_shown() {
    let settings = read("--api-key sesame").expect("known");
    assert!(!format!("{settings:?}").contains("sesame"));
}

#[test]
fn spellings_with_underscores_and_equals_signs_are_taken() {
    let settings = read("--ctx_size=5 --batch_size 7 -a a_b -t=2 --cache_type_k=q8_0").expect("known");
    assert_eq!((settings.model.ctx_size, settings.model.batch_size, settings.model.threads), (5, 7, Some(2)));
    assert_eq!(settings.model.alias.as_deref(), Some("a_b"));
}

#[test]
fn kernels_are_measured_unless_they_are_given() {
    use clef_api::Repack::{Measure, Off, On};
    for (line, repack, threads) in [
        ("", Measure, None),
        ("--repack -t 3", On, Some(3)),
        ("-nr -t 3 -tb 2", Off, Some(2)),
        ("--repack --no-repack -tb 4", Off, Some(4)),
        ("-t -1 -tb 0", Measure, None),
    ] {
        let options = read(line).expect(line).model.options().model;
        assert_eq!((options.repack, options.threads), (repack, threads), "{line}");
    }
    for (value, repack) in [("1", On), ("0", Off)] {
        let settings = read_with("", &[("LLAMA_ARG_REPACK", value)]).expect("known");
        assert_eq!(settings.model.repack, repack, "{value}");
    }
}

#[test]
fn flash_attention_is_on_when_nothing_follows_it() {
    use clef_api::FlashAttention::{Auto, Off, On};
    for (line, expected) in
        [("-fa", On), ("-fa off", Off), ("-fa -1", Auto), ("-fa --port 7", On), ("--flash-attn=0", Off)]
    {
        assert_eq!(read(line).expect(line).model.flash_attention, expected, "{line}");
    }
}

#[test]
fn the_command_line_goes_before_the_environment_and_the_last_of_several_wins() {
    let environment = [
        ("LLAMA_ARG_PORT", "7"),
        ("LLAMA_ARG_HOST", "0.0.0.0"),
        ("LLAMA_ARG_ENDPOINT_METRICS", "1"),
        ("LLAMA_ARG_NO_ENDPOINT_SLOTS", "anything"),
        ("LLAMA_ARG_TEMPERATURE", "0.5"),
        ("CLEF_ARG_QUEUE_SIZE", "3"),
        ("LLAMA_API_KEY", "from-the-environment"),
        ("HF_TOKEN", "x"),
    ];
    let settings = read_with("--port 8 --port 9 --api-key from-the-line", &environment).expect("known");
    assert_eq!((settings.port, settings.host.as_str(), settings.queue_size), (9, "0.0.0.0", 3));
    // The library that downloads reads it, with all else that speaks for it.
    assert_eq!(settings.model.fetch.token, None);
    assert_eq!(settings.ignored, ["LLAMA_ARG_TEMPERATURE"]);
    let config = settings.server_config().expect("nothing contradicts");
    assert!(config.metrics && !config.slots);
    assert_eq!(config.api_keys, [clef_http::ApiKey::new("from-the-line").expect("a key")]);
    let open = read_with("", &[("LLAMA_API_KEY", "")]).expect_err("an empty key is none").to_string();
    assert!(open.starts_with("error: LLAMA_API_KEY: "), "{open}");
    let wrong = read_with("", &[("LLAMA_ARG_PORT", "x")]).expect_err("refused").to_string();
    assert_eq!(wrong, "error: LLAMA_ARG_PORT \"x\": expected a whole number from 0 to 65535");
    let wrong = read_with("", &[("LLAMA_ARG_SPEC_DRAFT_MODEL", "x")]).expect_err("refused").to_string();
    assert!(wrong.starts_with("error: invalid argument: LLAMA_ARG_SPEC_DRAFT_MODEL\n"), "{wrong}");
}

#[test]
fn a_model_on_the_command_line_is_the_only_one() {
    let environment = [("LLAMA_ARG_MODEL", "a.gguf"), ("LLAMA_ARG_HF_FILE", "other.gguf"), ("LLAMA_ARG_PORT", "")];
    assert_eq!(read_with("", &environment).expect("known").model.model, Some("a.gguf".into()));
    assert!(read_with("-m b.gguf", &environment).expect("known").model.check_source().is_ok());
    for line in ["-hf user/model", "-mu http://x/y.gguf"] {
        let settings = read_with(line, &environment).expect("known");
        assert!(settings.model.model.is_none() && settings.model.fetches(), "{line}");
        assert_eq!(settings.model.fetch.file, None, "{line}");
    }
}

#[test]
fn a_host_that_ends_in_sock_is_a_socket() {
    let settings = read("--host /run/clef.sock --port 0").expect("known");
    assert_eq!(settings.server_config().expect("sound").listen, Listen::Unix("/run/clef.sock".into()));
    assert!(!settings.prints_address());
    assert!(read("--port 0").expect("known").prints_address());
}

#[test]
fn api_prefixes_begin_with_a_slash_and_end_without_one() {
    for (given, prefix) in [("clef", "/clef"), ("/clef/", "/clef"), ("/a/b", "/a/b"), ("/", "")] {
        let settings = read(&format!("--api-prefix {given}")).expect(given);
        assert_eq!(settings.http.api_prefix, prefix);
    }
    assert!(refusal("--api-prefix a?b").contains("expected a path"));
}
