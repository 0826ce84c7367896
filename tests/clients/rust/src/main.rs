//! crates.io `typesafe-systemone`, unmodified, against a server: what its documentation shows, and what it makes of
//! refusals. One line per check on standard output, which `tests/clients/run` counts.
//!
//! Usage: `clef-server-client OPEN KEYED SMALL KEY`. The three are addresses: of a server without keys, of one with KEY,
//! and of one that takes 4 KiB and one request at a time.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use typesafe_systemone::{Client, Error, Question, RetryPolicy, SystemOneResponse};

type Outcome = Result<(), Box<dyn StdError>>;

const MESSAGE: &str = "Customer message: I was charged twice for my order last week and nobody has replied.";
const LEVELS: [&str; 4] = ["can wait", "this week", "today", "right now"];

/// Fails a check, not the program.
macro_rules! require {
    ($holds:expr, $($words:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err(format!($($words)+).into());
        }
    };
}

struct Servers {
    open: String,
    keyed: String,
    small: String,
    key: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Ok([open, keyed, small, key]) = <[String; 4]>::try_from(arguments) else {
        eprintln!("usage: clef-server-client OPEN KEYED SMALL KEY");
        return ExitCode::FAILURE;
    };
    let servers = Servers { open, keyed, small, key };
    let checks = [
        ("the builder of its README, all three types, with values", all_types(&servers).await),
        ("the message of the examples is for billing", billing(&servers).await),
        ("evaluate() with a map of questions and a state of one's own", own_state(&servers).await),
        ("models(), and the listed name answers", models(&servers).await),
        ("with a key", with_key(&servers).await),
        ("401 is Authentication", wrong_key(&servers).await),
        ("404 is NotFound", unknown_path(&servers).await),
        ("413 is UnexpectedStatus", too_large(&servers).await),
        ("422 is UnprocessableEntity and names the place", invalid(&servers).await),
        ("a prompt over the context is UnprocessableEntity", too_long(&servers).await),
        ("an image is Server with status 501", image(&servers).await),
        ("429 is RateLimit with a wait, and retries get through", full_queue(&servers).await),
        ("a request out of time is Timeout, and the next is answered", timeout(&servers).await),
    ];
    let mut failed = false;
    for (name, outcome) in checks {
        match outcome {
            Ok(()) => println!("ok      typesafe-rust: {name}"),
            Err(error) => {
                failed = true;
                println!("FAILED  typesafe-rust: {name}: {}", error.to_string().replace('\n', " "));
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn client(address: &str, key: &str) -> Result<Client, Error> {
    Client::builder().base_url(address).api_key(key).build()
}

fn once(address: &str, key: &str) -> Result<Client, Error> {
    Client::builder().base_url(address).api_key(key).retry(RetryPolicy::none()).build()
}

fn refund() -> [(&'static str, Question); 1] {
    [("refund", Question::noul("Does the customer want money back?"))]
}

fn distribution(probabilities: &HashMap<String, f64>, keys: &[&str]) -> Outcome {
    let mut seen: Vec<&str> = probabilities.keys().map(String::as_str).collect();
    let mut wanted = keys.to_vec();
    seen.sort_unstable();
    wanted.sort_unstable();
    require!(seen == wanted, "options {seen:?} are not {wanted:?}");
    require!(probabilities.values().all(|p| (0.0..=1.0).contains(p)), "{probabilities:?}");
    let sum: f64 = probabilities.values().sum();
    require!((sum - 1.0).abs() <= 1e-6, "the probabilities sum to {sum}");
    Ok(())
}

fn judge_score(response: &SystemOneResponse, id: &str, levels: &[&str]) -> Outcome {
    let answer = response.score(id)?;
    let keys: Vec<String> = (0..levels.len()).map(|level| level.to_string()).collect();
    distribution(&answer.probabilities, &keys.iter().map(String::as_str).collect::<Vec<_>>())?;
    for (key, level) in keys.iter().zip(levels) {
        require!(answer.legend.get(key).is_some_and(|text| text == level), "legend {:?}", answer.legend);
    }
    let mean: f64 = keys.iter().enumerate().map(|(level, key)| level as f64 * answer.probabilities[key]).sum();
    require!((answer.score - mean).abs() <= 1e-9, "score {} is not the mean {mean}", answer.score);
    require!((0.0..=1.0).contains(&answer.confidence), "confidence {}", answer.confidence);
    Ok(())
}

fn judge_envelope(response: &SystemOneResponse, answers: usize) -> Outcome {
    require!(response.answers.len() == answers, "{} answers", response.answers.len());
    require!(response.model == "clef-nano", "model {}", response.model);
    require!(response.usage.input_tokens > 0, "{:?}", response.usage);
    require!(response.usage.output_tokens == 0, "{:?}", response.usage);
    Ok(())
}

async fn all_types(servers: &Servers) -> Outcome {
    let response = client(&servers.open, "any-key")?
        .system_one()
        .field("message", "Help! My payouts have been failing for 3 days.")
        .noul("is_urgent", "Does `message` convey urgency?")
        .choice("department", "Which team should handle `message`?", |c| {
            c.option("billing", "Payments, invoicing, refunds")
                .option("technical", "Bugs, outages, integrations")
                .none_of_the_above("No listed team fits")
        })
        .score("frustration", "How frustrated is the customer?", ["Calm", "Frustrated", "Very angry"])
        .send()
        .await?;
    judge_envelope(&response, 3)?;
    let urgent = response.noul("is_urgent")?;
    require!((0.0..=1.0).contains(&urgent), "noul {urgent}");
    let department = response.choice("department")?;
    distribution(&department.probabilities, &["billing", "technical", "none_of_the_above"])?;
    let ranked = department.ranked();
    require!(ranked[0].0 == department.choice, "{} was chosen of {ranked:?}", department.choice);
    let confidence = ((ranked[0].1 - 1.0 / 3.0) / (1.0 - 1.0 / 3.0)).max(0.0);
    require!((department.confidence - confidence).abs() <= 1e-9, "confidence {}", department.confidence);
    judge_score(&response, "frustration", &["Calm", "Frustrated", "Very angry"])
}

async fn billing(servers: &Servers) -> Outcome {
    judge_billing(&client(&servers.open, "any-key")?).await
}

async fn judge_billing(client: &Client) -> Outcome {
    let response = client
        .system_one()
        .state(MESSAGE)
        .choice("route", "Which team should handle this?", |c| c.options_plain(["billing", "shipping", "technical"]))
        .noul("angry", "Is the customer angry?")
        .score("urgency", "How urgent is this?", LEVELS)
        .send()
        .await?;
    judge_envelope(&response, 3)?;
    require!(response.choice("route")?.choice == "billing", "{:?}", response.choice("route")?);
    distribution(&response.choice("route")?.probabilities, &["billing", "shipping", "technical"])?;
    judge_score(&response, "urgency", &LEVELS)
}

async fn own_state(servers: &Servers) -> Outcome {
    #[derive(serde::Serialize)]
    struct Ticket<'a> {
        subject: &'a str,
        tags: [&'a str; 2],
        number: Option<u64>,
    }
    let ticket = Ticket { subject: "두 번 결제됐어요 😡", tags: ["web", "vip"], number: None };
    let questions = [
        ("질문 🎯", Question::noul_with_criteria(json!({"task": "Is money asked for?"}), "yes", "no")),
        ("refund", Question::noul("Does the customer want money back?")),
    ];
    let response = client(&servers.open, "any-key")?.evaluate(ticket, questions).await?;
    judge_envelope(&response, 2)?;
    require!((0.0..=1.0).contains(&response.noul("질문 🎯")?), "{response:?}");
    require!(response.choice("refund").is_err(), "a noul was read as a choice");
    Ok(())
}

async fn models(servers: &Servers) -> Outcome {
    let client = client(&servers.open, "any-key")?;
    let models = client.models().await?;
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    require!(names == ["clef-nano"], "{names:?}");
    require!(!models[0].description.is_empty(), "{models:?}");
    let response = client.evaluate_with_model(names[0], MESSAGE, refund()).await?;
    judge_envelope(&response, 1)
}

async fn with_key(servers: &Servers) -> Outcome {
    let client = client(&servers.keyed, &servers.key)?;
    require!(client.models().await?.len() == 1, "one model is served");
    judge_billing(&client).await
}

async fn wrong_key(servers: &Servers) -> Outcome {
    let client = client(&servers.keyed, "wrong-key")?;
    let asked = client.evaluate(MESSAGE, refund()).await;
    require!(matches!(&asked, Err(Error::Authentication { message }) if message.contains("Key")), "{asked:?}");
    let listed = client.models().await;
    require!(matches!(listed, Err(Error::Authentication { .. })), "{listed:?}");
    Ok(())
}

async fn unknown_path(servers: &Servers) -> Outcome {
    let asked = client(&format!("{}/elsewhere", servers.open), "any-key")?.evaluate(MESSAGE, refund()).await;
    require!(matches!(asked, Err(Error::NotFound { .. })), "{asked:?}");
    Ok(())
}

async fn too_large(servers: &Servers) -> Outcome {
    let asked = client(&servers.small, "any-key")?.evaluate("word ".repeat(20_000), refund()).await;
    require!(matches!(asked, Err(Error::UnexpectedStatus { status: 413, .. })), "{asked:?}");
    Ok(())
}

async fn invalid(servers: &Servers) -> Outcome {
    let client = client(&servers.open, "any-key")?;
    let levels = (0..11).map(|level| level.to_string());
    let asked = client.system_one().state(MESSAGE).score("depth", "How deep?", levels).send().await;
    require!(matches!(&asked, Err(Error::UnprocessableEntity { message }) if message.contains("depth")), "{asked:?}");
    Ok(())
}

async fn too_long(servers: &Servers) -> Outcome {
    let asked = client(&servers.open, "any-key")?.evaluate("and ".repeat(60_000), refund()).await;
    require!(matches!(asked, Err(Error::UnprocessableEntity { .. })), "{asked:?}");
    Ok(())
}

async fn image(servers: &Servers) -> Outcome {
    let url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC";
    let content = json!([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]);
    let state = json!([{"role": "user", "content": content}]);
    let asked = once(&servers.open, "any-key")?.evaluate(state, refund()).await;
    require!(matches!(asked, Err(Error::Server { status: 501, .. })), "{asked:?}");
    Ok(())
}

async fn full_queue(servers: &Servers) -> Outcome {
    let long = MESSAGE.repeat(30);
    let turned_away = once(&servers.small, "any-key")?;
    let (one, two, three) = tokio::join!(
        turned_away.evaluate(&long, refund()),
        turned_away.evaluate(&long, refund()),
        turned_away.evaluate(&long, refund())
    );
    let results = [one, two, three];
    require!(results.iter().any(Result::is_ok), "nobody was answered: {results:?}");
    require!(results.iter().any(Result::is_err), "nobody was turned away by a queue of one");
    for error in results.into_iter().filter_map(Result::err) {
        let waits = matches!(&error, Error::RateLimit { retry_after: Some(wait), .. } if !wait.is_zero());
        require!(waits, "{error:?}");
    }
    let policy = RetryPolicy { max_retries: 30, ..RetryPolicy::default() };
    let patient = Client::builder().base_url(servers.small.as_str()).api_key("any-key").retry(policy).build()?;
    let (one, two) = tokio::join!(patient.evaluate(&long, refund()), patient.evaluate(&long, refund()));
    require!(one?.noul("refund")? == two?.noul("refund")?, "different answers");
    Ok(())
}

async fn timeout(servers: &Servers) -> Outcome {
    let hasty = Client::builder().base_url(servers.open.as_str()).api_key("any-key").retry(RetryPolicy::none());
    let asked = hasty.timeout(Duration::from_millis(5)).build()?.evaluate(MESSAGE.repeat(100), refund()).await;
    require!(matches!(asked, Err(Error::Timeout(_))), "{asked:?}");
    billing(servers).await
}
