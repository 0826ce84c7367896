//! Reads a pin file and compares it with `Cargo.lock`. Used by `build.rs` and by its tests; pure.

/// Which llama.cpp this project stands on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    /// The crate that carries it.
    pub(crate) name: String,
    /// That crate's version.
    pub(crate) version: String,
    /// Its checksum, as `Cargo.lock` states it.
    pub(crate) checksum: String,
    /// What upstream calls the build (`b11434`).
    pub(crate) upstream_build: String,
}

impl Pin {
    /// Reads `key = value` lines; `#` opens a comment line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value = |key: &str| {
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(|line| line.split_once('='))
                .find(|(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim().to_owned())
                .ok_or_else(|| format!("the pin file states no {key}"))
        };
        Ok(Self {
            name: value("crate")?,
            version: value("version")?,
            checksum: value("checksum")?,
            upstream_build: value("upstream-build")?,
        })
    }

    /// Refuses a lock file that holds the crate in another version, with other contents, twice, or not at all.
    pub(crate) fn check(&self, lock: &str) -> Result<(), String> {
        let field = |package: &str, key: &str| {
            let value = package.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
            value.map(|value| value.trim().trim_matches('"').to_owned())
        };
        let locked: Vec<(String, String)> = lock
            .split("[[package]]")
            .filter(|package| field(package, "name").as_deref() == Some(&self.name))
            .map(|package| {
                let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
                (or_none(field(package, "version")), or_none(field(package, "checksum")))
            })
            .collect();
        let pinned = (self.version.clone(), self.checksum.clone());
        if locked == [pinned] {
            return Ok(());
        }
        let describe = |(version, checksum): &(String, String)| format!("{version} (checksum {checksum})");
        let found = match locked.as_slice() {
            [] => "no such package".to_owned(),
            all => all.iter().map(describe).collect::<Vec<_>>().join(" and "),
        };
        Err(format!(
            "{}: Cargo.lock has {found}, the project is pinned to {} (checksum {}); vendor/README.md says how to move it",
            self.name, self.version, self.checksum
        ))
    }
}
