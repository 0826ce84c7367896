//! What the API refuses, and what the refusal says: question, field, and what is allowed.

use clef_record::{LocItem, Record, RecordError, RecordErrorKind, Rules};

fn refuse(body: &str) -> RecordError {
    let error = Record::parse(body.as_bytes()).expect_err(body);
    assert_bounded(&error);
    error
}

/// A client may send anything; the reply's message and place stay short.
pub(crate) fn assert_bounded(error: &RecordError) {
    let loc: usize = error.loc().iter().map(|item| item.to_string().len()).sum();
    assert!(error.message().len() <= 600, "{}", error.message());
    assert!(loc <= 300, "{:?}", error.loc());
    assert!(!error.message().chars().any(char::is_control));
}

pub(crate) fn loc(error: &RecordError) -> String {
    let steps: Vec<_> = error.loc().iter().map(ToString::to_string).collect();
    steps.join(".")
}

#[track_caller]
pub(crate) fn check(body: &str, slug: &str, place: &str, parts: &[&str]) {
    let error = refuse(body);
    assert_eq!(error.slug(), slug, "{error}");
    assert_eq!(loc(&error), place, "{error}");
    for part in parts {
        assert!(error.message().contains(part), "{part:?} is not in {:?}", error.message());
    }
    assert_eq!(error.kind(), RecordErrorKind::Invalid);
}

#[track_caller]
fn check_question(question: &str, slug: &str, field: &str, parts: &[&str]) {
    let body = format!(r#"{{"state":"x","questions":{{"q1":{question}}}}}"#);
    let place = format!("body.questions.q1{}{field}", if field.is_empty() { "" } else { "." });
    check(&body, slug, &place, &[&["question \"q1\""], parts].concat());
}

#[test]
fn a_body_that_is_no_object() {
    for (body, found) in
        [("[]", "an array"), ("\"x\"", "a string"), ("1", "a number"), ("null", "null"), ("true", "a boolean")]
    {
        check(body, "dict_type", "body", &[found, "must be an object"]);
    }
}

#[test]
fn a_missing_or_null_state() {
    check(r#"{"questions":{"q":{"type":"noul"}}}"#, "missing", "body.state", &["no state", "any JSON value but null"]);
    check(r#"{"state":null,"questions":{"q":{"type":"noul"}}}"#, "missing", "body.state", &["null"]);
}

#[test]
fn missing_empty_or_misshapen_questions() {
    check(r#"{"state":"x"}"#, "missing", "body.questions", &["no questions"]);
    check(r#"{"state":"x","questions":{}}"#, "too_short", "body.questions", &["at least one"]);
    for questions in ["[]", "null", "\"q\"", "[{\"type\":\"noul\"}]"] {
        let body = format!(r#"{{"state":"x","questions":{questions}}}"#);
        check(&body, "dict_type", "body.questions", &["must be an object"]);
    }
    check_question("\"noul\"", "dict_type", "", &["is a string", "an object with a type"]);
}

#[test]
fn misspelled_fields_are_named_with_a_hint() {
    for (wrong, meant) in
        [("question", "questions"), ("image", "images"), ("video", "videos"), ("asset", "assets"), ("states", "state")]
    {
        let body = format!(r#"{{"{wrong}":null,"state":"x","questions":{{"q":{{"type":"noul"}}}}}}"#);
        let hint = format!("did you mean \"{meant}\"?");
        check(&body, "extra_forbidden", &format!("body.{wrong}"), &[&format!("\"{wrong}\""), &hint]);
    }
    for (wrong, meant) in
        [("instruction", "instructions"), ("criterias", "criteria"), ("criterion", "criteria"), ("options", "criteria")]
    {
        let question = format!(r#"{{"type":"noul","{wrong}":1}}"#);
        let hint = format!("did you mean \"{meant}\"?");
        check_question(&question, "extra_forbidden", wrong, &[&format!("\"{wrong}\""), &hint]);
    }
}

#[test]
fn types_are_exact() {
    const ALLOWED: &str = r#""noul", "choice" or "score""#;
    for (name, found) in [
        (r#""Noul""#, "\"Noul\""),
        (r#""box""#, "\"box\""),
        (r#""bool""#, "\"bool\""),
        (r#""noul ""#, "\"noul \""),
        (r#""""#, "\"\""),
        ("null", "null"),
        ("1", "a number"),
        ("[\"noul\"]", "an array"),
    ] {
        check_question(&format!(r#"{{"type":{name}}}"#), "literal_error", "type", &[found, ALLOWED]);
    }
    check_question("{}", "missing", "type", &["no type", ALLOWED]);
}

#[test]
fn choice_criteria() {
    const ALLOWED: &str = "an object of 1 to 255 options";
    check_question(r#"{"type":"choice"}"#, "missing", "criteria", &["no criteria", ALLOWED]);
    check_question(r#"{"type":"choice","criteria":null}"#, "dict_type", "criteria", &["null", ALLOWED]);
    check_question(r#"{"type":"choice","criteria":["a","b"]}"#, "dict_type", "criteria", &["an array", ALLOWED]);
    check_question(r#"{"type":"choice","criteria":{}}"#, "too_short", "criteria", &["0 options", ALLOWED]);
    for count in [256, 1_000] {
        let members: Vec<_> = (0..count).map(|index| format!(r#""c{index}":null"#)).collect();
        let question = format!(r#"{{"type":"choice","criteria":{{{}}}}}"#, members.join(","));
        check_question(&question, "too_long", "criteria", &["options", ALLOWED]);
    }
}

#[test]
fn score_criteria() {
    const ALLOWED: &str = "an array of 2 to 10 levels";
    check_question(r#"{"type":"score"}"#, "missing", "criteria", &[ALLOWED]);
    check_question(
        r#"{"type":"score","criteria":{"0":"a","1":"b"}}"#,
        "list_type",
        "criteria",
        &["an object", ALLOWED],
    );
    for (count, slug, found) in
        [(0, "too_short", "0 levels"), (1, "too_short", "1 level,"), (11, "too_long", "11 levels")]
    {
        let question = format!(r#"{{"type":"score","criteria":[{}]}}"#, vec!["\"a\""; count].join(","));
        check_question(&question, slug, "criteria", &[found, ALLOWED]);
    }
}

#[test]
fn noul_criteria() {
    for (criteria, found) in [("[]", "an array"), ("\"yes\"", "a string"), ("true", "a boolean"), ("0", "a number")] {
        let question = format!(r#"{{"type":"noul","criteria":{criteria}}}"#);
        check_question(&question, "dict_type", "criteria", &[found, "\"true\" and \"false\""]);
    }
}

#[test]
fn a_question_without_id_and_instructions() {
    for instructions in ["", r#","instructions":null"#, r#","instructions":"""#] {
        let body = format!(r#"{{"state":"x","questions":{{"":{{"type":"noul"{instructions}}}}}}}"#);
        check(&body, "missing", "body.questions..instructions", &["question \"\"", "must not be empty"]);
    }
}

#[test]
fn duplicates_where_a_key_has_a_meaning() {
    check(
        r#"{"state":"x","questions":{"q":{"type":"noul"}},"state":"x"}"#,
        "duplicate_key",
        "body.state",
        &["\"state\" twice"],
    );
    check(r#"{"state":"x","other":1,"other":2}"#, "duplicate_key", "body.other", &[]);
    check(
        r#"{"state":"x","questions":{"q":{"type":"noul"},"\u0071":{"type":"noul"}}}"#,
        "duplicate_key",
        "body.questions.q",
        &["question \"q\"", "twice"],
    );
    check_question(r#"{"type":"noul","type":"noul"}"#, "duplicate_key", "type", &["\"type\" twice"]);
    check_question(
        r#"{"type":"choice","criteria":{"a":null,"b":null,"a":null}}"#,
        "duplicate_key",
        "criteria.a",
        &["\"a\" twice"],
    );
    check_question(
        r#"{"type":"noul","criteria":{"true":1,"true":2}}"#,
        "duplicate_key",
        "criteria.true",
        &["criteria", "\"true\" twice"],
    );
}

#[test]
fn duplicates_inside_free_values_are_taken() {
    let body = r#"{"state":{"a":1,"a":2},"questions":{"q":{"type":"choice","instructions":{"i":1,"i":2},
        "criteria":{"a":{"d":1,"d":2}}}}}"#;
    let record = Record::parse(body.as_bytes()).unwrap();
    assert_eq!(record.questions[0].instruction, r#"{"i":2}"#);
    assert_eq!(record.questions[0].options[0].text, r#"{"description":{"d":2},"option_id":"a"}"#);
}

#[test]
fn optional_fields_of_the_wrong_kind() {
    for (field, slug, allowed) in [
        (r#""model":1"#, "string_type", "a string"),
        (r#""model":{}"#, "string_type", "a string"),
        (r#""max_length":0"#, "greater_than_equal", "1 or more"),
        (r#""max_length":-5"#, "int_type", "-5"),
        (r#""max_length":1.0"#, "int_type", "an integer"),
        (r#""max_length":1e3"#, "int_type", "1e3"),
        (r#""max_length":"700""#, "int_type", "a string"),
        (r#""max_length":true"#, "int_type", "a boolean"),
        (r#""max_state_tokens":-1"#, "int_type", "0 or more"),
        (r#""max_state_tokens":[]"#, "int_type", "an array"),
        (r#""truncate":"start""#, "literal_error", r#""none" or "end""#),
        (r#""truncate":true"#, "literal_error", "a boolean"),
    ] {
        let name = field.split('"').nth(1).unwrap();
        let body = format!(r#"{{"state":"x",{field},"questions":{{"q":{{"type":"noul"}}}}}}"#);
        check(&body, slug, &format!("body.{name}"), &[name, allowed]);
    }
}

#[test]
fn a_syntax_error_anywhere_wins_over_a_rule() {
    let error = refuse("{\"state\":null,\n\"question\":[1,}");
    assert_eq!(error.slug(), "json_invalid");
    let position = error.position().unwrap();
    assert_eq!((position.offset, position.line, position.column), (29, 2, 15));
    assert_eq!(error.loc(), ["body".into(), LocItem::Index(29)]);
    let long = format!("[{},", "9".repeat(5_000));
    assert_eq!(refuse(&long).slug(), "json_invalid");
}

#[test]
fn the_first_problem_in_the_document_is_reported() {
    let error = refuse(r#"{"max_length":0,"questions":{"a":{"type":"x"},"b":{"type":"y"}},"state":null}"#);
    assert_eq!(loc(&error), "body.max_length");
    let error = refuse(r#"{"questions":{"a":{"type":"x"},"b":{"type":"y"}},"state":null}"#);
    assert_eq!(loc(&error), "body.questions.a.type");
}

#[test]
fn bytes_that_are_not_json_are_refused_with_their_position() {
    let cases: [(&[u8], usize); 10] = [
        (b"", 0),
        (b"  \n", 3),
        (b"{:", 1),
        (b"\xef\xbb\xbf{}", 0),
        (b"{\"a\":\"\xff\"}", 6),
        (b"{\"a\":\"\xed\xa0\x80\"}", 6),
        (b"{\"a\":\"\xc3", 6),
        (b"{}\0", 2),
        (b"{\"a\":NaN}", 5),
        (br#"{"a":"\ud83d"}"#, 6),
    ];
    for (body, offset) in cases {
        let error = Record::parse(body).unwrap_err();
        assert_bounded(&error);
        assert_eq!(error.slug(), "json_invalid", "{error}");
        assert_eq!(error.position().unwrap().offset, offset, "{error}");
    }
}

#[test]
fn an_integer_that_python_refuses() {
    let body = |digits: usize| format!(r#"{{"state":{},"questions":{{"q":{{"type":"noul"}}}}}}"#, "7".repeat(digits));
    check(&body(4_301), "integer_too_long", "body", &["4,301 digits", "4,300"]);
    assert_eq!(Record::parse(body(4_300).as_bytes()).unwrap().state.len(), 4_300);
}

#[test]
fn counts_of_fields_questions_and_options_are_bounded() {
    let fields: Vec<_> = (0..1_030).map(|index| format!(r#""f{index}":0"#)).collect();
    check(&format!("{{{}}}", fields.join(",")), "too_long", "body.f1024", &["1,024 fields"]);
    let rules = Rules { max_questions: 2, max_options: 5, ..Rules::default() };
    let body = r#"{"state":"x","questions":{"a":{"type":"noul"},"b":{"type":"noul"},"c":{"type":"noul"}}}"#;
    let error = Record::parse_with(body.as_bytes(), &rules).unwrap_err();
    assert_eq!((error.slug(), &*loc(&error)), ("too_long", "body.questions"));
    let body = r#"{"state":"x","questions":{"a":{"type":"noul"},"b":{"type":"score","criteria":[1,2,3,4]}}}"#;
    let error = Record::parse_with(body.as_bytes(), &rules).unwrap_err();
    assert_eq!((error.slug(), &*loc(&error)), ("too_long", "body.questions.b.criteria"));
    assert!(error.message().contains("5 options"), "{error}");
}

#[test]
fn whatever_is_long_is_repeated_short() {
    let long = "é\\u0000\\\"".repeat(3_000);
    let bodies = [
        format!(r#"{{"state":"x","questions":{{"{long}":{{"type":"noul"}}}}}}"#),
        format!(r#"{{"state":"x","questions":{{"{long}":1}}}}"#),
        format!(r#"{{"state":"x","questions":{{"q":{{"type":"{long}"}}}}}}"#),
        format!(r#"{{"state":"x","questions":{{"q":{{"type":"choice","criteria":{{"{long}":1,"{long}":1}}}}}}}}"#),
        format!(r#"{{"state":"x","questions":{{"q":{{"{long}":1,"{long}":1}}}}}}"#),
        format!(r#"{{"{long}":1,"{long}":1}}"#),
        format!(r#"{{"truncate":"{long}"}}"#),
        format!(r#"{{"max_length":1.{}}}"#, "0".repeat(9_000)),
        format!(r#"{{"state":"x","questions":{{"{}":{{"type":"noul","instruction":1}}}}}}"#, "q".repeat(8_000)),
    ];
    for body in &bodies {
        refuse(body);
    }
}

#[test]
fn an_id_of_ten_kilobytes() {
    let id = "q".repeat(10_000);
    let error = refuse(&format!(r#"{{"state":"x","questions":{{"{id}":{{"type":"noul"}}}}}}"#));
    assert_eq!(error.slug(), "string_too_long");
    assert!(error.message().contains("10,000 bytes, the limit is 8,192"), "{error}");
}
