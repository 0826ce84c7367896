//! What the API takes, and what it makes of it.

use clef_record::{Question, QuestionKind, Record, Rules, Truncate};

fn parse(body: &str) -> Record {
    Record::parse(body.as_bytes()).unwrap()
}

fn state(json: &str) -> String {
    parse(&format!(r#"{{"state":{json},"questions":{{"q":{{"type":"noul"}}}}}}"#)).state
}

fn question(json: &str) -> Question {
    let record = parse(&format!(r#"{{"state":"x","questions":{{"the id":{json}}}}}"#));
    record.questions.into_iter().next().unwrap()
}

fn texts(question: &Question) -> Vec<&str> {
    question.options.iter().map(|option| &*option.text).collect()
}

fn keys(question: &Question) -> Vec<&str> {
    question.options.iter().map(|option| &*option.key).collect()
}

#[test]
fn a_request_of_every_kind_is_read() {
    let record = parse(
        r#"{
            "model": "clef-tiny",
            "state": {"z": 1250.0, "a": ["é", null]},
            "questions": {
                "route": {"type": "choice", "instructions": "Which?", "criteria": {"b": null, "a": "first"}},
                "angry": {"type": "noul", "instructions": "Angry?"},
                "urgency": {"type": "score", "criteria": ["later", "now"]}
            },
            "max_length": 700,
            "max_state_tokens": 0,
            "truncate": "end"
        }"#,
    );
    assert_eq!(record.model.as_deref(), Some("clef-tiny"));
    assert_eq!(record.state, r#"{"a":["é",null],"z":1250.0}"#);
    assert_eq!(record.max_length, Some(700));
    assert_eq!(record.max_state_tokens, Some(0));
    assert_eq!(record.truncate, Truncate::End);
    let kinds: Vec<_> = record.questions.iter().map(|question| (&*question.id, question.kind)).collect();
    assert_eq!(
        kinds,
        [("route", QuestionKind::Choice), ("angry", QuestionKind::Noul), ("urgency", QuestionKind::Score)]
    );
    let route = &record.questions[0];
    assert_eq!(keys(route), ["b", "a"]);
    assert_eq!(route.prompt_order(), [1, 0]);
    assert_eq!(texts(route), [r#"{"option_id":"b"}"#, r#"{"description":"first","option_id":"a"}"#]);
    assert_eq!(record.questions[2].instruction, "urgency");
}

#[test]
fn fields_come_in_any_order() {
    let record = parse(r#"{"questions":{"q":{"criteria":{"a":null},"type":"choice"}},"state":[]}"#);
    assert_eq!(record.state, "[]");
    assert_eq!(keys(&record.questions[0]), ["a"]);
}

#[test]
fn optional_fields_may_be_null_and_unknown_ones_are_ignored() {
    let record = parse(
        r#"{"state":0,"model":null,"max_length":null,"max_state_tokens":null,"truncate":null,"images":null,
            "videos":[],"assets":{},"temperature":{"deep":[1]},"questions":{"q":{"type":"noul","weight":3}}}"#,
    );
    assert_eq!(record.model, None);
    assert_eq!(record.truncate, Truncate::None);
    assert_eq!(record.max_length, None);
}

#[test]
fn any_state_but_null_is_rendered() {
    for (json, rendered) in [
        (r#""""#, ""),
        ("0", "0"),
        ("false", "false"),
        ("[]", "[]"),
        ("{}", "{}"),
        ("1E400", "Infinity"),
        (r#""a\u0000b""#, "a\0b"),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#""<|im_end|><__media__>""#, "<|im_end|><__media__>"),
    ] {
        assert_eq!(state(json), rendered);
    }
}

#[test]
fn text_parts_of_messages_stay_in_the_state() {
    for json in [
        r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#,
        r#"{"messages":[{"content":[{"text":"hi","type":"text"}]}]}"#,
        r#"[{"image_url":"x","type":"product"}]"#,
        r#"[{"type":"image","image_url":"x"}]"#,
        r#"{"note":"image_url and input_image are words here","type":"image_url"}"#,
        r#"{"type":"image_url","image_url":null}"#,
        r#"[["image_url",{"type":"input_image"}]]"#,
        r#"[{"type":"file","mediaType":"text/plain","data":"a"}]"#,
        r#"[{"type":"file","mediaType":"image/png","data":null}]"#,
        r#"{"type":"file","mediaType":"image/png","data":"a"}"#,
        r#"[{"type":"json","value":["<__media__>","<|image_pad|>"]}]"#,
        r#"{"messages":"none"}"#,
    ] {
        assert_eq!(state(json), clef_record::json::render_canonical(json).unwrap());
    }
}

#[test]
fn missing_instructions_are_the_id_and_falsy_ones_are_not_missing() {
    for (json, instruction) in [
        (r#"{"type":"noul"}"#, "the id"),
        (r#"{"type":"noul","instructions":null}"#, "the id"),
        (r#"{"type":"noul","instructions":""}"#, "the id"),
        (r#"{"type":"noul","instructions":" "}"#, " "),
        (r#"{"type":"noul","instructions":0}"#, "0"),
        (r#"{"type":"noul","instructions":false}"#, "false"),
        (r#"{"type":"noul","instructions":{}}"#, "{}"),
        (r#"{"type":"noul","instructions":[]}"#, "[]"),
        (r#"{"type":"noul","instructions":{"b":1,"a":[2.50]}}"#, r#"{"a":[2.5],"b":1}"#),
    ] {
        assert_eq!(question(json).instruction, instruction);
    }
}

#[test]
fn an_empty_id_is_taken_with_instructions() {
    let record = parse(r#"{"state":"x","questions":{"":{"type":"noul","instructions":"Angry?"}}}"#);
    assert_eq!(record.questions[0].id, "");
}

#[test]
fn noul_criteria_override_key_by_key() {
    const TRUE: &str = r#"{"description":"The proposition is true or the answer is yes.","option_id":"true"}"#;
    const FALSE: &str = r#"{"description":"The proposition is false or the answer is no.","option_id":"false"}"#;
    for (criteria, expected) in [
        ("null", [TRUE, FALSE]),
        ("{}", [TRUE, FALSE]),
        (r#"{"maybe":1,"True":2}"#, [TRUE, FALSE]),
        (r#"{"true":"yes"}"#, [r#"{"description":"yes","option_id":"true"}"#, FALSE]),
        (r#"{"false":["no",1.0]}"#, [TRUE, r#"{"description":["no",1.0],"option_id":"false"}"#]),
        (r#"{"true":null,"false":null}"#, [r#"{"option_id":"true"}"#, r#"{"option_id":"false"}"#]),
        (
            r#"{"true":"","false":""}"#,
            [r#"{"description":"","option_id":"true"}"#, r#"{"description":"","option_id":"false"}"#],
        ),
    ] {
        let question = question(&format!(r#"{{"type":"noul","criteria":{criteria}}}"#));
        assert_eq!(texts(&question), expected, "{criteria}");
        assert_eq!(keys(&question), ["true", "false"]);
    }
}

#[test]
fn choice_descriptions_are_any_json() {
    let question = question(
        r#"{"type":"choice","criteria":{"a":1,"b":1.0,"c":true,"d":{"y":1,"x":2},"":null,"say \"hi\"":"\u0041"}}"#,
    );
    assert_eq!(
        texts(&question),
        [
            r#"{"description":1,"option_id":"a"}"#,
            r#"{"description":1.0,"option_id":"b"}"#,
            r#"{"description":true,"option_id":"c"}"#,
            r#"{"description":{"x":2,"y":1},"option_id":"d"}"#,
            r#"{"option_id":""}"#,
            r#"{"description":"A","option_id":"say \"hi\""}"#,
        ]
    );
}

#[test]
fn score_levels_are_any_json_and_the_legend_repeats_them() {
    let question = question(
        r#"{"type":"score","criteria":["low", {"z": 1.50, "a" : "\u0041"}, [ 1E2, 2 ], null, 12.50, true, 1E2]}"#,
    );
    assert_eq!(keys(&question), ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(
        texts(&question),
        [
            r#"{"description":"low","option_id":"0"}"#,
            r#"{"description":{"a":"A","z":1.5},"option_id":"1"}"#,
            r#"{"description":[100.0,2],"option_id":"2"}"#,
            r#"{"option_id":"3"}"#,
            r#"{"description":12.5,"option_id":"4"}"#,
            r#"{"description":true,"option_id":"5"}"#,
            r#"{"description":100.0,"option_id":"6"}"#,
        ]
    );
    let legends: Vec<_> = question.options.iter().map(|option| option.legend.as_deref().unwrap()).collect();
    assert_eq!(
        legends,
        [r#""low""#, r#"{"z":1.50,"a":"\u0041"}"#, "[1E2,2]", r#""""#, r#""12.5""#, r#""true""#, r#""100.0""#,]
    );
}

#[test]
fn levels_named_like_numbers_keep_their_own_numbers() {
    let question = question(r#"{"type":"score","criteria":["20","21","22","23","24"]}"#);
    assert_eq!(keys(&question), ["0", "1", "2", "3", "4"]);
    assert_eq!(texts(&question)[4], r#"{"description":"24","option_id":"4"}"#);
}

#[test]
fn counts_up_to_the_limits_are_taken() {
    let levels = |count: usize| format!(r#"{{"type":"score","criteria":[{}]}}"#, vec!["0"; count].join(","));
    for count in [2, 10] {
        assert_eq!(question(&levels(count)).options.len(), count);
    }
    let options = |count: usize| {
        let members: Vec<_> = (0..count).map(|index| format!(r#""c{index}":null"#)).collect();
        format!(r#"{{"type":"choice","criteria":{{{}}}}}"#, members.join(","))
    };
    for count in [1, 255] {
        assert_eq!(question(&options(count)).options.len(), count);
    }
}

#[test]
fn reference_limits_take_what_the_reference_answers() {
    let rules = Rules { reference_limits: true, ..Rules::default() };
    let many: Vec<_> = (0..256).map(|index| format!(r#""c{index}":null"#)).collect();
    let body = format!(
        r#"{{"state":null,"questions":{{"one":{{"type":"score","criteria":[0]}},
            "eleven":{{"type":"score","criteria":[0,1,2,3,4,5,6,7,8,9,10]}},
            "many":{{"type":"choice","criteria":{{{}}}}}}}}}"#,
        many.join(",")
    );
    let record = Record::parse_with(body.as_bytes(), &rules).unwrap();
    assert_eq!(record.state, "null");
    let counts: Vec<_> = record.questions.iter().map(|question| question.options.len()).collect();
    assert_eq!(counts, [1, 11, 256]);
    assert!(Record::parse(body.as_bytes()).is_err());
}

#[test]
fn limits_larger_than_a_word_are_no_limits() {
    let record = parse(
        r#"{"state":"x","max_length":99999999999999999999999,"max_state_tokens":-0,"questions":{"q":{"type":"noul"}}}"#,
    );
    assert_eq!(record.max_length, Some(usize::MAX));
    assert_eq!(record.max_state_tokens, Some(0));
}
