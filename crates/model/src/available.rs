//! How much memory there is to be had, as the system says.
//!
//! What a system calls free is not the question: pages of files that it keeps as long as nobody else needs them count as
//! available, and limits of containers and of the process count as limits. What cannot be read is not a limit.

use std::path::{Path, PathBuf};

use clef_llama::Device;

/// Memory that could be taken now, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Available {
    /// The host's; none if unknown.
    pub(crate) host: Option<u64>,
    /// That of the GPUs in use that have memory of their own, together; none without them.
    pub(crate) gpus: Option<u64>,
}

/// The host's memory; none where the system does not say.
pub(crate) fn host() -> Option<u64> {
    if cfg!(target_os = "linux") {
        linux(Path::new("/"))
    } else if cfg!(target_os = "macos") {
        // What is in use there is compressed or given up: only the whole is sure.
        Some(Device::cpu().memory().1 as u64).filter(|&total| total > 0)
    } else {
        None
    }
}

/// The least of all limits that the files below a root state.
fn linux(root: &Path) -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let machine = field(&read("proc/meminfo"), "MemAvailable:").and_then(|kibibytes| kibibytes.checked_mul(1024));
    let groups = read("proc/self/cgroup");
    let in_groups = groups.lines().filter_map(|line| group(root, line));
    machine
        .into_iter()
        .chain(in_groups)
        .chain(address_space(&read("proc/self/limits"), &read("proc/self/status")))
        .min()
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// What is left of the address space under `ulimit -v`.
fn address_space(limits: &str, status: &str) -> Option<u64> {
    let limit = field(limits, "Max address space")?;
    let taken = field(status, "VmSize:")?.checked_mul(1024)?;
    Some(limit.saturating_sub(taken))
}

/// What a control group and those around it leave, from its line in `/proc/self/cgroup`.
fn group(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let second_version = controllers.is_empty();
    if !second_version && !controllers.split(',').any(|name| name == "memory") {
        return None;
    }
    let top = root.join(if second_version { "sys/fs/cgroup" } else { "sys/fs/cgroup/memory" });
    let mut folder: PathBuf = top.join(path.trim_start_matches('/'));
    let mut least = None;
    // Inside a container the path may be that of the host, where there is nothing: then the topmost one counts.
    while folder.starts_with(&top) {
        let left = if second_version { left(&folder, &V2) } else { left(&folder, &V1) };
        least = least.into_iter().chain(left).min();
        if !folder.pop() {
            break;
        }
    }
    least
}

/// Names of a version's files, and of the lines that count pages of files.
struct Names {
    limit: &'static str,
    taken: &'static str,
    files: [&'static str; 2],
}

const V2: Names = Names { limit: "memory.max", taken: "memory.current", files: ["inactive_file ", "active_file "] };
const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    taken: "memory.usage_in_bytes",
    files: ["total_inactive_file ", "total_active_file "],
};

fn left(folder: &Path, names: &Names) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    // Without a limit it is "max", or a number beyond all memory.
    let limit: u64 = read(names.limit)?.trim().parse().ok()?;
    let taken: u64 = read(names.taken)?.trim().parse().ok()?;
    let statistics = read("memory.stat").unwrap_or_default();
    let files: u64 = names.files.iter().filter_map(|name| field(&statistics, name)).sum();
    Some(limit.saturating_sub(taken.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    struct Root(tempfile::TempDir);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            for (path, text) in files {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
                std::fs::write(path, text).expect("a file");
            }
            Self(folder)
        }

        fn available(&self) -> Option<u64> {
            linux(self.0.path())
        }
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal: 8192000 kB\nMemFree: 1024 kB\nMemAvailable:    4096000 kB\n");

    #[test]
    fn a_machine_says_what_is_available() {
        assert_eq!(Root::new(&[MACHINE]).available(), Some(4_096_000 * 1024));
        assert_eq!(Root::new(&[]).available(), None);
        assert_eq!(Root::new(&[("proc/meminfo", "MemAvailable: much\n")]).available(), None);
    }

    #[test]
    fn a_container_limits_it_and_pages_of_files_do_not_count() {
        let root = Root::new(&[
            MACHINE,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1\n"),
            ("sys/fs/cgroup/a/memory.max", "1048576000\n"),
            ("sys/fs/cgroup/a/memory.current", "838860800\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 104857600\nactive_file 209715200\n"),
        ]);
        assert_eq!(root.available(), Some(500 * MIB));
    }

    #[test]
    fn the_older_kind_of_control_groups_is_read_where_the_path_is_the_hosts() {
        let root = Root::new(&[
            MACHINE,
            ("proc/self/cgroup", "8:pids:/x\n4:memory:/docker/abc\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "943718400\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 52428800\n"),
        ]);
        assert_eq!(root.available(), Some(150 * MIB));
    }

    #[test]
    fn a_limit_of_the_process_is_one() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax address space         1048576000           unlimited            bytes\n";
        let status = ("proc/self/status", "Name: x\nVmSize:\t  512000 kB\n");
        assert_eq!(Root::new(&[MACHINE, ("proc/self/limits", limits), status]).available(), Some(500 * MIB));
        let none = limits.replace("1048576000", "unlimited");
        assert_eq!(Root::new(&[MACHINE, ("proc/self/limits", &none), status]).available(), Some(4_096_000 * 1024));
    }
}
