//! A device and its scheduler.

use std::ffi::c_int;
use std::ptr::NonNull;

use clef_sys::{ggml_backend, ggml_backend_sched};

use crate::backend::{BufferType, Device};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Message;

/// Runs graphs on a device; operations the device lacks fall back to the CPU. One thread at a time.
#[derive(Debug)]
pub struct Compute {
    scheduler: Scheduler,
    backends: Vec<Backend>,
    device: Device,
    max_nodes: usize,
}

/// Enough for the graphs of ordinary requests.
const FIRST_SCHEDULER: usize = 2048;

impl Compute {
    /// Opens a queue on `device` for graphs of up to `max_nodes` operations, with `threads` threads where the CPU
    /// computes.
    ///
    /// # Errors
    /// If the device cannot be opened.
    pub fn new(device: Device, threads: u32, max_nodes: usize) -> Result<Self> {
        let mut backends = vec![Backend::open(device)?];
        if device != Device::cpu() {
            backends.push(Backend::open(Device::cpu())?);
        }
        for backend in &backends {
            // SAFETY: the backend is live.
            unsafe { clef_sys::clef_backend_set_threads(backend.0.as_ptr(), threads as c_int) };
        }
        let scheduler = Scheduler::new(&backends, FIRST_SCHEDULER)?;
        Ok(Self { scheduler, backends, device, max_nodes })
    }

    /// The device it computes on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The most operations a graph may have.
    pub fn max_nodes(&self) -> usize {
        self.max_nodes
    }

    pub(crate) fn buffer_type(&self) -> BufferType {
        // SAFETY: the backend is live.
        let buffer_type = unsafe { clef_sys::ggml_backend_get_default_buffer_type(self.backends[0].0.as_ptr()) };
        // SAFETY: it was just returned.
        unsafe { BufferType::from_raw(buffer_type) }.expect("every backend has memory")
    }

    /// Allocates a graph of `nodes` operations.
    pub(super) fn allocate(&mut self, graph: *mut clef_sys::ggml_cgraph, nodes: usize) -> Result<()> {
        // ggml counts what operations read as well; no operation here reads more than one thing of its own.
        let needed = 2 * nodes;
        if needed > self.scheduler.capacity {
            self.scheduler = Scheduler::new(&self.backends, needed.next_power_of_two())?;
        }
        let mut message = Message::default();
        // SAFETY: scheduler and graph are live.
        let status =
            unsafe { clef_sys::clef_scheduler_alloc(self.scheduler.pointer.as_ptr(), graph, message.as_raw()) };
        message.check(status, "no memory for the head's computation").map_err(|e| Error::new(ErrorKind::OutOfMemory, e))
    }

    pub(super) fn run(&mut self, graph: *mut clef_sys::ggml_cgraph) -> Result<()> {
        let mut message = Message::default();
        // SAFETY: scheduler and graph are live, and the graph was allocated by this scheduler.
        let status =
            unsafe { clef_sys::clef_scheduler_compute(self.scheduler.pointer.as_ptr(), graph, message.as_raw()) };
        message.check(status, "the head's computation failed")
    }
}

/// The owner of a ggml scheduler.
///
/// One for `n` tensors takes 22 KB of address space for each of them, touched or not. So a small one is made at first,
/// and a larger one when a request needs it.
#[derive(Debug)]
struct Scheduler {
    pointer: NonNull<ggml_backend_sched>,
    capacity: usize,
}

// SAFETY: ggml's schedulers have no thread affinity; `Compute` keeps them to one thread at a time by `&mut self`.
unsafe impl Send for Scheduler {}

impl Scheduler {
    /// `backends` must outlive it.
    fn new(backends: &[Backend], capacity: usize) -> Result<Self> {
        let mut raw: Vec<_> = backends.iter().map(|backend| backend.0.as_ptr()).collect();
        let mut scheduler = std::ptr::null_mut();
        let mut message = Message::default();
        // SAFETY: `raw` holds as many live backends as stated; `scheduler` is valid for writes.
        let status = unsafe {
            clef_sys::clef_scheduler_new(
                raw.as_mut_ptr(),
                raw.len() as c_int,
                capacity,
                &raw mut scheduler,
                message.as_raw(),
            )
        };
        message.check(status, "no scheduler for the head")?;
        let pointer = NonNull::new(scheduler).ok_or_else(|| Error::upstream("no scheduler for the head"))?;
        Ok(Self { pointer, capacity })
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: this is the only owner; `Compute` drops the backends after it.
        unsafe { clef_sys::ggml_backend_sched_free(self.pointer.as_ptr()) };
    }
}

#[derive(Debug)]
struct Backend(NonNull<ggml_backend>);

// SAFETY: ggml's backends have no thread affinity; `Compute` keeps them to one thread at a time by `&mut self`.
unsafe impl Send for Backend {}

impl Backend {
    fn open(device: Device) -> Result<Self> {
        // SAFETY: devices are static; no parameters are passed.
        let backend = unsafe { clef_sys::ggml_backend_dev_init(device.as_raw(), std::ptr::null()) };
        NonNull::new(backend)
            .map(Self)
            .ok_or_else(|| Error::upstream(format_args!("the device {} cannot be opened", device.name())))
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { clef_sys::ggml_backend_free(self.0.as_ptr()) };
    }
}
