//! What there is to compute with.

use std::path::Path;

use clef_llama::Device;

/// The most threads that are ever used.
const MOST_THREADS: usize = 512;
/// More CPUs than a machine has.
const MOST_CPUS: usize = 1 << 14;

/// The CPUs that this process may use.
#[derive(Debug)]
pub(super) struct Machine {
    /// What tells it from others: model, instructions, CPUs.
    pub(super) description: String,
    logical: usize,
    /// Cores that these CPUs belong to, if the system says so.
    cores: Option<usize>,
}

impl Machine {
    /// The one that this runs on. What it does not tell is left out.
    pub(super) fn this() -> Self {
        let logical = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_THREADS);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = field(&status, "Cpus_allowed_list");
        let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let instructions = field(&information, "flags").or_else(|| field(&information, "Features")).unwrap_or_default();
        Self {
            description: format!(
                "{} {:016x} {logical} of {}",
                Device::cpu().description(),
                fnv(instructions.as_bytes()),
                allowed.unwrap_or("all")
            ),
            logical,
            cores: allowed.and_then(cpus).and_then(|cpus| cores(Path::new("/sys/devices/system/cpu"), &cpus)),
        }
    }

    /// Numbers of threads worth trying, fewest first: one for each core, and one for each CPU.
    pub(super) fn thread_counts(&self) -> Vec<u32> {
        let cores = self.cores.filter(|&cores| cores < self.logical);
        cores.into_iter().chain([self.logical]).map(|count| count as u32).collect()
    }
}

/// The value of the first line that begins with a name.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    values.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The CPUs of a list such as `0-3,8`.
fn cpus(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST_CPUS {
            return None;
        }
        all.extend(first..=last);
    }
    (!all.is_empty()).then_some(all)
}

/// Distinct cores of some CPUs.
fn cores(folder: &Path, cpus: &[usize]) -> Option<usize> {
    let siblings = |cpu| std::fs::read_to_string(folder.join(format!("cpu{cpu}/topology/thread_siblings_list"))).ok();
    let mut lists = cpus.iter().map(siblings).collect::<Option<Vec<String>>>()?;
    lists.sort();
    lists.dedup();
    Some(lists.len())
}

/// FNV-1a: the same in every build.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus("5"), Some(vec![5]));
        for wrong in ["", "a", "1-", "0-99999999999", "0-16384", "3-1"] {
            assert_eq!(cpus(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn siblings_are_one_core() {
        let folder = tempfile::tempdir().expect("a folder");
        for (cpu, siblings) in ["0,2", "1,3", "0,2", "1,3"].iter().enumerate() {
            let topology = folder.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).expect("a folder");
            std::fs::write(topology.join("thread_siblings_list"), siblings).expect("written");
        }
        assert_eq!(cores(folder.path(), &[0, 1, 2, 3]), Some(2));
        assert_eq!(cores(folder.path(), &[0, 2]), Some(1));
        assert_eq!(cores(folder.path(), &[0, 4]), None);
    }

    #[test]
    fn cores_are_tried_only_where_there_are_fewer() {
        let counts = |logical, cores| Machine { description: String::new(), logical, cores }.thread_counts();
        assert_eq!(counts(4, Some(2)), [2, 4]);
        assert_eq!(counts(4, Some(4)), [4]);
        // A container's share may be smaller than what it may run on.
        assert_eq!(counts(1, Some(2)), [1]);
        assert_eq!(counts(4, None), [4]);
    }

    #[test]
    fn this_machine_is_told_alike_twice() {
        let machine = Machine::this();
        assert_eq!(machine.description, Machine::this().description);
        assert!((1..=2).contains(&machine.thread_counts().len()));
    }
}
