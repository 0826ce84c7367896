//! llama.cpp's log as `tracing` events, and the last net under its assertions.
//!
//! llama.cpp reports the reason of a failure only in its log, so the last warning or error line is kept for the error
//! that follows. A failed `GGML_ASSERT` ends the process: checks in this crate keep files and requests from reaching
//! one, and if one is reached all the same its line is printed and the process ends with an exit code, not a signal.

use std::ffi::{CStr, c_char, c_void};
use std::io::Write as _;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use clef_sys::{
    GGML_LOG_LEVEL_CONT, GGML_LOG_LEVEL_DEBUG, GGML_LOG_LEVEL_ERROR, GGML_LOG_LEVEL_INFO, GGML_LOG_LEVEL_WARN,
    ggml_log_level,
};

#[derive(Default)]
struct Lines {
    /// Text of a line whose end has not come yet (llama.cpp logs in pieces).
    pending: String,
    level: ggml_log_level,
    last_complaint: Option<String>,
}

static LINES: Mutex<Option<Lines>> = Mutex::new(None);
static ABORT_EXIT_CODE: AtomicI32 = AtomicI32::new(1);

/// Sets the exit code with which a failed assertion inside llama.cpp ends the process (1 until set).
pub fn set_abort_exit_code(code: i32) {
    ABORT_EXIT_CODE.store(code, Ordering::Relaxed);
}

/// Ends the process at once: no destructor runs, neither Rust's nor those of llama.cpp's static objects, which must not
/// run while one of its threads is at work.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// The last warning or error that llama.cpp logged, once.
pub(crate) fn take_last_complaint() -> Option<String> {
    let mut lines = LINES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    lines.as_mut().and_then(|lines| lines.last_complaint.take())
}

/// Sends llama.cpp's and ggml's log to `tracing` and installs the abort handler. Called once, by backend start-up.
pub(crate) fn install() {
    // SAFETY: the callback is a plain function that outlives the program and never unwinds.
    unsafe { clef_sys::llama_log_set(Some(on_log), std::ptr::null_mut()) };
    // SAFETY: as above.
    unsafe { clef_sys::clef_vision_set_log(Some(on_log)) };
    // SAFETY: as above.
    unsafe { clef_sys::ggml_set_abort_callback(Some(on_abort)) };
}

unsafe extern "C" fn on_log(level: ggml_log_level, text: *const c_char, _user_data: *mut c_void) {
    // SAFETY: llama.cpp passes a terminated string that lives for the call.
    let text = unsafe { CStr::from_ptr(text) };
    // A panic must not cross into C++.
    let _ = catch_unwind(|| append(level, &text.to_string_lossy()));
}

fn append(level: ggml_log_level, text: &str) {
    let mut guard = LINES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let lines = guard.get_or_insert_default();
    if level != GGML_LOG_LEVEL_CONT {
        lines.level = level;
    }
    lines.pending.push_str(text);
    while let Some(end) = lines.pending.find('\n') {
        let line: String = lines.pending.drain(..=end).collect();
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if lines.level == GGML_LOG_LEVEL_ERROR || lines.level == GGML_LOG_LEVEL_WARN {
            // The first complaint names the cause; the ones after it say that the callers failed too.
            if lines.level == GGML_LOG_LEVEL_ERROR && !line.ends_with("failed to load model") {
                lines.last_complaint = Some(line.to_owned());
            }
        }
        emit(lines.level, line);
    }
}

fn emit(level: ggml_log_level, line: &str) {
    match level {
        // Its own callers report errors with this line in them; twice would be noise at the default level.
        GGML_LOG_LEVEL_ERROR | GGML_LOG_LEVEL_WARN => tracing::info!(target: "llama.cpp", "{line}"),
        GGML_LOG_LEVEL_INFO => tracing::debug!(target: "llama.cpp", "{line}"),
        GGML_LOG_LEVEL_DEBUG => tracing::trace!(target: "llama.cpp", "{line}"),
        _ => tracing::trace!(target: "llama.cpp", "{line}"),
    }
}

unsafe extern "C" fn on_abort(message: *const c_char) {
    // SAFETY: ggml passes a terminated string that lives for the call.
    let message = unsafe { CStr::from_ptr(message) };
    let message = message.to_string_lossy();
    // The compiler's path to the source file says nothing to people.
    let message = message.rsplit_once("/llama.cpp/").map_or(&*message, |(_, rest)| rest);
    let _ = writeln!(std::io::stderr(), "error: llama.cpp gave up: {}", message.trim());
    // Not `exit`: handlers registered by libraries must not run in a process whose state is unknown.
    // SAFETY: ends the process.
    unsafe { libc::_exit(ABORT_EXIT_CODE.load(Ordering::Relaxed)) }
}
