//! Which files a split model consists of.
//!
//! llama.cpp's `gguf-split` names parts `NAME-00001-of-00004.gguf` and writes into each its number (from zero), how many
//! there are, and how many tensors all have. Only the first part has the model's metadata. Names and numbers are checked
//! against each other: files get renamed, half downloaded, and mixed up.

use std::path::{Path, PathBuf};

/// What is wrong, without the file's name.
type Problem = String;

/// Where a file stands in a split model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The folder and the name before the number.
    prefix: PathBuf,
    /// From zero.
    pub(super) number: u64,
    /// At least two.
    pub(super) count: u64,
    /// Tensors of all parts, if stated.
    pub(super) tensors: Option<u64>,
}

/// The value of a key that must be a whole number, if the key is there.
type Stated = Option<Option<u64>>;

impl Place {
    /// The place of a file with these keys; none if it is a whole model.
    pub(super) fn read(
        path: &Path,
        number: Stated,
        count: Stated,
        tensors: Stated,
    ) -> std::result::Result<Option<Self>, Problem> {
        let whole = |key: &str, value: Stated| match value {
            Some(None) => Err(format!("{key} is not a whole number")),
            Some(known) => Ok(known),
            None => Ok(None),
        };
        let number = whole("split.no", number)?;
        let tensors = whole("split.tensors.count", tensors)?;
        let Some(count) = whole("split.count", count)?.filter(|&count| count > 1) else { return Ok(None) };
        let number = number.ok_or("split.no is missing, so nobody knows which part it is")?;
        if number >= count {
            return Err(format!(
                "it is part {} of {count}: split.no and split.count contradict each other",
                number + 1
            ));
        }
        let Some((prefix, named_number, named_count)) = parse(path) else {
            return Err(format!(
                "it is part {} of {count} of a split model; the others are found only if all are named \
                 NAME-{:05}-of-{count:05}.gguf",
                number + 1,
                number + 1
            ));
        };
        if (named_number, named_count) != (number + 1, count) {
            return Err(format!(
                "it is named as part {named_number} of {named_count} and says that it is part {} of {count}",
                number + 1
            ));
        }
        Ok(Some(Self { prefix, number, count, tensors }))
    }

    /// Where a part lies.
    pub(super) fn path_of(&self, number: u64) -> PathBuf {
        let mut path = self.prefix.clone().into_os_string();
        path.push(format!("-{:05}-of-{:05}.gguf", number + 1, self.count));
        path.into()
    }
}

/// Whether what was found where part `number` should be is that part of the same model.
pub(super) fn agree(expected: &Place, number: u64, found: Option<&Place>) -> std::result::Result<(), Problem> {
    let Some(found) = found else {
        return Err(format!("it should be part {} of {} and is a model of its own", number + 1, expected.count));
    };
    // Number and count agree with the name, which was made from them.
    if found.tensors != expected.tensors {
        let shown = |tensors: Option<u64>| tensors.map_or_else(|| "no number of".to_owned(), |count| count.to_string());
        return Err(format!(
            "it states {} tensors for all parts, part {} states {}: parts of different models",
            shown(found.tensors),
            expected.number + 1,
            shown(expected.tensors)
        ));
    }
    Ok(())
}

/// The prefix of a part's path, its number (from one) and how many there are.
fn parse(path: &Path) -> Option<(PathBuf, u64, u64)> {
    let name = path.file_name()?.to_str()?;
    let rest = name.strip_suffix(".gguf")?;
    let (rest, count) = rest.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok());
    Some((path.with_file_name(prefix), digits(number)??, digits(count)??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, number: u64, count: u64) -> std::result::Result<Option<Place>, Problem> {
        Place::read(Path::new(name), Some(Some(number)), Some(Some(count)), Some(Some(7)))
    }

    #[test]
    fn parts_are_found_by_name() {
        let place = read("/models/a-of-b-00002-of-00003.gguf", 1, 3).expect("sound").expect("a part");
        assert_eq!((place.number, place.count, place.tensors), (1, 3, Some(7)));
        assert_eq!(place.path_of(2), Path::new("/models/a-of-b-00003-of-00003.gguf"));
        assert_eq!(
            read("x-00001-of-00002.gguf", 0, 2).expect("sound").expect("a part").path_of(0).to_str(),
            Some("x-00001-of-00002.gguf")
        );
        assert_eq!(read("whole.gguf", 0, 1), Ok(None));
        assert_eq!(Place::read(Path::new("x-00001-of-00002.gguf"), None, None, None), Ok(None));
    }

    #[test]
    fn names_and_numbers_that_contradict_each_other_are_refused() {
        for (name, number, count, words) in [
            ("whole.gguf", 0, 2, "NAME-00001-of-00002.gguf"),
            ("x-1-of-2.gguf", 0, 2, "NAME-00001-of-00002.gguf"),
            ("x-00001-of-00002.gguf", 1, 2, "named as part 1 of 2 and says that it is part 2 of 2"),
            ("x-00001-of-00003.gguf", 0, 2, "named as part 1 of 3"),
            ("x-00003-of-00002.gguf", 2, 2, "contradict"),
        ] {
            let problem = read(name, number, count).expect_err(name);
            assert!(problem.contains(words), "{problem}");
        }
        assert!(Place::read(Path::new("x"), None, Some(Some(2)), None).is_err());
        assert!(Place::read(Path::new("x"), Some(Some(0)), Some(None), None).is_err());
    }
}
