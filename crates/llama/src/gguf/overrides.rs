//! Values in place of a file's own, as llama.cpp's `--override-kv` states them.

use std::fmt;

use super::value::ValueType;

/// llama.cpp's limit on keys and texts, its terminator left out.
const MAX_BYTES: usize = 127;

/// A metadata key and the value that it is taken to have.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    key: String,
    value: Given,
}

#[derive(Debug, Clone, PartialEq)]
enum Given {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Text(String),
}

impl Override {
    /// Reads `KEY=TYPE:VALUE`, where the type is `int`, `float`, `bool` or `str`.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "expected KEY=TYPE:VALUE with a type of int, float, bool or str";
        let (key, typed) = text.split_once('=').ok_or(SHAPE)?;
        let (kind, value) = typed.split_once(':').ok_or(SHAPE)?;
        if key.is_empty() || key.len() > MAX_BYTES || key.contains('\0') {
            return Err(format!("a key has 1 to {MAX_BYTES} bytes"));
        }
        let value = match kind {
            "int" => Given::Integer(value.parse().map_err(|_| format!("{key} needs a whole number of 64 bits"))?),
            "float" => {
                let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
                Given::Float(number.ok_or_else(|| format!("{key} needs a number"))?)
            }
            "bool" => Given::Bool(value.parse().map_err(|_| format!("{key} needs true or false"))?),
            "str" if value.len() <= MAX_BYTES && !value.contains('\0') => Given::Text(value.to_owned()),
            "str" => return Err(format!("{key} takes at most {MAX_BYTES} bytes of text")),
            _ => return Err(SHAPE.to_owned()),
        };
        Ok(Self { key: key.to_owned(), value })
    }

    /// Reads several, separated by commas. One that starts with a double quote reaches to the next one and may hold
    /// commas.
    ///
    /// # Errors
    /// As [`Override::parse`]; also if a key is there twice.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut all: Vec<Self> = Vec::new();
        for item in fields(text) {
            let next = Self::parse(&item)?;
            if all.iter().any(|known| known.key == next.key) {
                return Err(format!("{} is there twice", next.key));
            }
            all.push(next);
        }
        Ok(all)
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Type and value as they would stand in a file.
    pub(super) fn encoded(&self) -> (ValueType, Vec<u8>) {
        match &self.value {
            Given::Integer(number) => (ValueType::I64, number.to_le_bytes().to_vec()),
            Given::Float(number) => (ValueType::F64, number.to_le_bytes().to_vec()),
            Given::Bool(flag) => (ValueType::Bool, vec![u8::from(*flag)]),
            Given::Text(text) => {
                let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
                bytes.extend(text.as_bytes());
                (ValueType::String, bytes)
            }
        }
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Given::Integer(number) => write!(f, "{number}"),
            Given::Float(number) => write!(f, "{number:?}"),
            Given::Bool(flag) => write!(f, "{flag}"),
            Given::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// The fields of a line of comma-separated values.
fn fields(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let field = all.last_mut().expect("there is always one");
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => quoted = true,
            ',' if !quoted => all.push(String::new()),
            other => field.push(other),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_are_read() {
        let read = Override::parse_list("a.b=int:-3,c=float:1e4,d=bool:true,\"e=str:x,\"\"y:z\"").expect("sound");
        let shown: Vec<String> = read.iter().map(|change| format!("{}={change}", change.key())).collect();
        assert_eq!(shown, ["a.b=-3", "c=10000.0", "d=true", r#"e="x,\"y:z""#]);
        assert_eq!(read[0].encoded(), (ValueType::I64, (-3_i64).to_le_bytes().to_vec()));
        assert_eq!(read[2].encoded(), (ValueType::Bool, vec![1]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let long = "x".repeat(128);
        for text in [
            "",
            "a",
            "a=1",
            "a=int",
            "a=int:",
            "a=int:x",
            "a=int:1.5",
            "a=float:nan",
            "a=float:",
            "a=bool:1",
            "a=u32:1",
            "=int:1",
            "a=int:1,a=int:2",
            "a=int:1,",
            &format!("{long}=int:1"),
            &format!("a=str:{long}"),
        ] {
            assert!(Override::parse_list(text).is_err(), "{text}");
        }
    }
}
