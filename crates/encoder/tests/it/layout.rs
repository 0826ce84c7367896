//! Where everything stands in a prompt.

use clef_encoder::{EncodeErrorKind, Encoder, EncoderOptions};
use clef_record::{QuestionKind, TokenId};

use crate::characters::{Characters, encoder, record, span_texts, text};

const THREE: &str = r#"{"state":{"b":1,"a":"é"},"questions":{
    "route":{"type":"choice","instructions":"Which team?","criteria":{"z":null,"a":"first"}},
    "is it <|im_end|>":{"type":"noul"},
    "urgency":{"type":"score","instructions":["How"],"criteria":["low","high"]}}}"#;

const PROMPT: &str = r#"<|im_start|>system
Read the complete state and schema. Decide every field jointly. Each answer must be exactly one of that field's allowed options.<|im_end|>
<|im_start|>user
STATE:
{"a":"é","b":1}

SCHEMA FIELDS:

FIELD 1
ID: route
TYPE: choice
INSTRUCTION: Which team?
ALLOWED OPTIONS:
OPTION 1: {"description":"first","option_id":"a"}
OPTION 2: {"option_id":"z"}
END FIELD

FIELD 2
ID: is it <|im_end|>
TYPE: noul
INSTRUCTION: is it <|im_end|>
ALLOWED OPTIONS:
OPTION 1: {"description":"The proposition is true or the answer is yes.","option_id":"true"}
OPTION 2: {"description":"The proposition is false or the answer is no.","option_id":"false"}
END FIELD

FIELD 3
ID: urgency
TYPE: score
INSTRUCTION: ["How"]
ALLOWED OPTIONS:
OPTION 1: {"description":"low","option_id":"0"}
OPTION 2: {"description":"high","option_id":"1"}
END FIELD

<|im_end|>
<|im_start|>assistant
<think>

</think>

JOINT SCHEMA DECISIONS:"#;

#[test]
fn a_prompt_reads_as_the_reference_writes_it() {
    let prompt = encoder().encode(&record(THREE), &Characters::default(), &EncoderOptions::default()).unwrap();
    assert_eq!(text(&prompt.tokens), PROMPT);
    assert_eq!(prompt.truncated_tokens, 0);
}

#[test]
fn spans_hold_instructions_and_options() {
    let prompt = encoder().encode(&record(THREE), &Characters::default(), &EncoderOptions::default()).unwrap();
    assert_eq!(
        span_texts(&prompt),
        [
            vec!["Which team?", r#"{"description":"first","option_id":"a"}"#, r#"{"option_id":"z"}"#],
            vec![
                "is it <|im_end|>",
                r#"{"description":"The proposition is true or the answer is yes.","option_id":"true"}"#,
                r#"{"description":"The proposition is false or the answer is no.","option_id":"false"}"#,
            ],
            vec![r#"["How"]"#, r#"{"description":"low","option_id":"0"}"#, r#"{"description":"high","option_id":"1"}"#,],
        ]
    );
    let kinds: Vec<_> = prompt.questions.iter().map(|question| question.kind).collect();
    assert_eq!(kinds, [QuestionKind::Choice, QuestionKind::Noul, QuestionKind::Score]);
    let request: Vec<Vec<_>> = prompt
        .questions
        .iter()
        .map(|question| question.options.iter().map(|option| option.request_index).collect())
        .collect();
    assert_eq!(request, [[1, 0], [0, 1], [0, 1]]);
}

#[test]
fn boundaries_are_where_reuse_ends() {
    let encoder = encoder();
    let prompt = encoder.encode(&record(THREE), &Characters::default(), &EncoderOptions::default()).unwrap();
    assert_eq!(&prompt.tokens[..prompt.prefix_end], encoder.prefix());
    assert_eq!(text(&prompt.tokens[prompt.prefix_end..prompt.state_end]), r#"{"a":"é","b":1}"#);
    assert!(text(&prompt.tokens[prompt.state_end..]).starts_with("\n\nSCHEMA FIELDS:\n"));
}

#[test]
fn an_empty_state_has_no_token() {
    let record = record(r#"{"state":"","questions":{"q":{"type":"noul"}}}"#);
    let prompt = encoder().encode(&record, &Characters::default(), &EncoderOptions::default()).unwrap();
    assert_eq!(prompt.prefix_end, prompt.state_end);
    assert_eq!(prompt.tokens[prompt.state_end], TokenId(10));
}

#[test]
fn neutral_ids_hide_the_names_of_questions_only() {
    let options = EncoderOptions { neutral_ids: true, ..EncoderOptions::default() };
    let prompt = encoder().encode(&record(THREE), &Characters::default(), &options).unwrap();
    let expected = PROMPT
        .replace("ID: route", "ID: q1")
        .replace("ID: is it <|im_end|>", "ID: q2")
        .replace("ID: urgency", "ID: q3");
    assert_eq!(text(&prompt.tokens), expected);
}

#[test]
fn renaming_and_shuffling_choice_options_moves_no_token() {
    let shuffled = THREE.replace(r#"{"z":null,"a":"first"}"#, r#"{"a":"first","z":null}"#);
    let [straight, shuffled] = [THREE, &shuffled]
        .map(|body| encoder().encode(&record(body), &Characters::default(), &EncoderOptions::default()).unwrap());
    assert_eq!(straight.tokens, shuffled.tokens);
    assert_eq!(shuffled.questions[0].options[0].request_index, 0);
}

#[test]
fn more_options_than_the_api_takes_are_numbered_on() {
    let mut record = record(r#"{"state":"x","questions":{"q":{"type":"choice","criteria":{"a":null}}}}"#);
    let option = record.questions[0].options[0].clone();
    record.questions[0].options = vec![option; 300];
    let prompt = encoder().encode(&record, &Characters::default(), &EncoderOptions::default()).unwrap();
    let printed = text(&prompt.tokens);
    for number in [1, 255, 256, 300] {
        assert!(printed.contains(&format!("\nOPTION {number}: {{\"option_id\":\"a\"}}\n")));
    }
}

#[test]
fn a_text_without_a_token_is_refused_by_question_and_field() {
    let dropping = |dropped| Characters { dropped: Some(dropped), ..Characters::default() };
    let mut record =
        record(r#"{"state":"x","questions":{"quiet":{"type":"choice","instructions":"~~","criteria":{"key":null}}}}"#);
    let error = encoder().encode(&record, &dropping('~'), &EncoderOptions::default()).unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::EmptyText);
    assert_eq!(error.message(), "question \"quiet\" instructions has no token, it must not be empty");
    let loc: Vec<_> = error.loc().iter().map(ToString::to_string).collect();
    assert_eq!(loc, ["body", "questions", "quiet", "instructions"]);

    record.questions[0].instruction = "x".to_owned();
    record.questions[0].options[0].text = "~".to_owned();
    let error = encoder().encode(&record, &dropping('~'), &EncoderOptions::default()).unwrap_err();
    assert!(error.message().contains("question \"quiet\" criteria option \"key\""), "{error}");
    let loc: Vec<_> = error.loc().iter().map(ToString::to_string).collect();
    assert_eq!(loc, ["body", "questions", "quiet", "criteria", "key"]);
}

#[test]
fn a_tokenizer_that_fails_is_not_the_clients_fault() {
    let record = record(r#"{"state":"unspeakable","questions":{"q":{"type":"noul"}}}"#);
    let error = encoder().encode(&record, &Characters::default(), &EncoderOptions::default()).unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::Tokenizer);
    assert!(std::error::Error::source(&error).is_some());
    assert!(error.loc().is_empty());
}

#[test]
fn fixed_pieces_are_tokenized_once() {
    let characters = Characters::default();
    let encoder = Encoder::new(&characters).unwrap();
    characters.take_bytes();
    let record =
        record(r#"{"state":"x","questions":{"q":{"type":"choice","instructions":"?","criteria":{"a":null}}}}"#);
    encoder.encode(&record, &characters, &EncoderOptions::default()).unwrap();
    let client_text = "x?".len() + r#"{"option_id":"a"}"#.len();
    let header = "\nFIELD 1\nID: q\nTYPE: choice\nINSTRUCTION: ".len();
    assert_eq!(characters.take_bytes(), client_text + header);
}
