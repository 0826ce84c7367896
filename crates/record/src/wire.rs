//! The response body's JSON, as the official clients expect it.
//!
//! Printed by hand because three things about it are promises: the order of fields and answers, numbers that always have a
//! decimal point and never an exponent, and legends that repeat the client's own text.

use crate::answer::{Answer, AnswerValue, Decision};
use crate::json::write_quoted;

/// Prints a decision; `indent` is one level's indentation, none for a compact body.
pub(crate) fn write(decision: &Decision, model: &str, indent: Option<&str>) -> String {
    let mut writer = Writer { out: Vec::new(), indent, depth: 0, is_first: true };
    writer.object(|writer| {
        writer.text("model", model);
        writer.field("answers", |writer| {
            writer.object(|writer| {
                for answer in &decision.answers {
                    writer.field(&answer.id, |writer| writer.answer(answer));
                }
            });
        });
        writer.field("usage", |writer| {
            writer.object(|writer| {
                writer.raw("input_tokens", &decision.input_tokens.to_string());
                writer.raw("output_tokens", "0");
            });
        });
    });
    String::from_utf8(writer.out).expect("only whole texts are written")
}

struct Writer<'i> {
    out: Vec<u8>,
    indent: Option<&'i str>,
    depth: usize,
    /// Whether the object being written has no field yet.
    is_first: bool,
}

impl Writer<'_> {
    fn answer(&mut self, answer: &Answer) {
        self.object(|writer| {
            writer.text("type", answer.kind().as_str());
            match answer.value {
                AnswerValue::Noul { noul } => writer.number("noul", noul),
                AnswerValue::Choice { index, confidence } => {
                    writer.text("choice", &answer.options[index].key);
                    writer.number("confidence", confidence);
                    writer.probabilities(answer);
                }
                AnswerValue::Score { score, confidence } => {
                    writer.number("score", score);
                    writer.number("confidence", confidence);
                    writer.field("legend", |writer| {
                        writer.object(|writer| {
                            for option in &answer.options {
                                writer.raw(&option.key, option.legend.as_deref().unwrap_or("\"\""));
                            }
                        });
                    });
                    writer.probabilities(answer);
                }
            }
        });
    }

    fn probabilities(&mut self, answer: &Answer) {
        self.field("probabilities", |writer| {
            writer.object(|writer| {
                for option in &answer.options {
                    writer.number(&option.key, option.probability);
                }
            });
        });
    }

    fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        self.depth += 1;
        self.is_first = true;
        fields(self);
        self.depth -= 1;
        if !self.is_first {
            self.line();
        }
        self.out.push(b'}');
        self.is_first = false;
    }

    fn field(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        if !self.is_first {
            self.out.push(b',');
        }
        self.is_first = false;
        self.line();
        write_quoted(name, &mut self.out);
        self.out.push(b':');
        if self.indent.is_some() {
            self.out.push(b' ');
        }
        value(self);
        self.is_first = false;
    }

    fn line(&mut self) {
        if let Some(indent) = self.indent {
            self.out.push(b'\n');
            for _ in 0..self.depth {
                self.out.extend_from_slice(indent.as_bytes());
            }
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        self.field(name, |writer| write_quoted(value, &mut writer.out));
    }

    fn number(&mut self, name: &str, value: f64) {
        self.raw(name, &decimal(value));
    }

    fn raw(&mut self, name: &str, json: &str) {
        self.field(name, |writer| writer.out.extend_from_slice(json.as_bytes()));
    }
}

/// The fewest digits that read back, with a decimal point and without an exponent.
fn decimal(value: f64) -> String {
    let mut printed = value.to_string();
    if !printed.contains('.') {
        printed.push_str(".0");
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_point_and_no_exponent() {
        let printed = [0.0, 1.0, 9.0, 0.1, 1e-9, 1.5e-16, 0.123_456_789_012_345_67].map(decimal);
        assert_eq!(printed, ["0.0", "1.0", "9.0", "0.1", "0.000000001", "0.00000000000000015", "0.12345678901234566"]);
    }
}
