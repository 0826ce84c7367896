//! A device and its scheduler.

use std::ffi::c_int;
use std::ptr::NonNull;

use clef_sys::{ggml_backend, ggml_backend_buffer_type_t, ggml_backend_sched};

use crate::backend::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Message;

/// Runs graphs on a device; operations the device lacks fall back to the CPU. One thread at a time.
#[derive(Debug)]
pub struct Compute {
    scheduler: NonNull<ggml_backend_sched>,
    backends: Vec<Backend>,
    device: Device,
    max_nodes: usize,
}

// SAFETY: ggml's schedulers and backends have no thread affinity; `&mut self` keeps them to one thread at a time.
unsafe impl Send for Compute {}

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
        let mut raw: Vec<_> = backends.iter().map(|backend| backend.0.as_ptr()).collect();
        let mut scheduler = std::ptr::null_mut();
        let mut message = Message::default();
        // SAFETY: `raw` holds as many live backends as stated, kept alive by this value; `scheduler` is valid for
        // writes.
        let status = unsafe {
            clef_sys::clef_scheduler_new(
                raw.as_mut_ptr(),
                raw.len() as c_int,
                max_nodes,
                &raw mut scheduler,
                message.as_raw(),
            )
        };
        message.check(status, "no scheduler for the head")?;
        let scheduler = NonNull::new(scheduler).ok_or_else(|| Error::upstream("no scheduler for the head"))?;
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

    pub(super) fn buffer_type(&self) -> ggml_backend_buffer_type_t {
        // SAFETY: the backend is live; buffer types are static.
        unsafe { clef_sys::ggml_backend_get_default_buffer_type(self.backends[0].0.as_ptr()) }
    }

    pub(super) fn allocate(&mut self, graph: *mut clef_sys::ggml_cgraph) -> Result<()> {
        let mut message = Message::default();
        // SAFETY: scheduler and graph are live.
        let status = unsafe { clef_sys::clef_scheduler_alloc(self.scheduler.as_ptr(), graph, message.as_raw()) };
        message.check(status, "no memory for the head's computation").map_err(|e| Error::new(ErrorKind::OutOfMemory, e))
    }

    pub(super) fn run(&mut self, graph: *mut clef_sys::ggml_cgraph) -> Result<()> {
        let mut message = Message::default();
        // SAFETY: scheduler and graph are live, and the graph was allocated by this scheduler.
        let status = unsafe { clef_sys::clef_scheduler_compute(self.scheduler.as_ptr(), graph, message.as_raw()) };
        message.check(status, "the head's computation failed")
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        // SAFETY: this is the only owner; the backends are dropped after it.
        unsafe { clef_sys::ggml_backend_sched_free(self.scheduler.as_ptr()) };
    }
}

#[derive(Debug)]
struct Backend(NonNull<ggml_backend>);

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
