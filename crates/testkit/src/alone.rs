//! Tests that need a process of their own.

use std::process::Command;

/// Whether this process is one of its own for the test `name`, with its path in the test program; if not, the test is run
/// in one, and nothing is left to do. (The system tells the largest memory of all children of a process, for example, and
/// other tests have children, too.)
///
/// # Panics
/// If the test fails there, or there is none of this name.
pub fn is_alone(name: &str) -> bool {
    const ALONE: &str = "CLEF_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("a program knows its file");
    let run = Command::new(program).args(["--exact", name]).env(ALONE, "1").output().expect("it runs a second time");
    let words = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && words.contains("test result: ok. 1 passed"), "{name}: {words}");
    false
}
