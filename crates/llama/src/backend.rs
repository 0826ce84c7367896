//! Start-up of llama.cpp's backends, once per process, and the devices they offer.

use std::ffi::CStr;
use std::fmt;
use std::sync::{Once, OnceLock};

use clef_sys::{
    GGML_BACKEND_DEVICE_TYPE_ACCEL, GGML_BACKEND_DEVICE_TYPE_CPU, GGML_BACKEND_DEVICE_TYPE_IGPU,
    ggml_backend_buffer_type_t, ggml_backend_dev_t,
};

use crate::placement::Numa;

static START: Once = Once::new();
static NUMA: OnceLock<Numa> = OnceLock::new();

/// Starts llama.cpp's backends and takes over its log. Cheap after the first call; any thread.
pub(crate) fn start() {
    START.call_once(|| {
        crate::log::install();
        #[cfg(feature = "dynamic-backends")]
        load_modules();
        // SAFETY: no requirements; called once.
        unsafe { clef_sys::llama_backend_init() };
    });
}

/// Sets how the CPU's threads are spread over memory nodes. Once per process, before anything is computed; what comes
/// later changes nothing and is said in the log.
pub fn spread_threads(how: Numa) {
    // llama.cpp ends the process where there is no CPU backend.
    let _cpu = Device::cpu();
    let first = *NUMA.get_or_init(|| {
        // SAFETY: there is a CPU backend; `OnceLock` keeps other threads out, and this runs once.
        unsafe { clef_sys::llama_numa_init(how.as_raw()) };
        how
    });
    if first != how {
        tracing::warn!("threads are spread over memory nodes as {first:?}, which cannot be changed any more");
    }
}

/// Backends built as modules lie beside the program (an installed package) or where the build put them (a checkout).
#[cfg(feature = "dynamic-backends")]
fn load_modules() {
    use std::ffi::CString;

    let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("backends")));
    let built = clef_sys::BACKENDS_DIR.map(std::path::PathBuf::from);
    for folder in [beside, built].into_iter().flatten().filter(|folder| folder.is_dir()) {
        if let Ok(path) = CString::new(folder.as_os_str().as_encoded_bytes()) {
            // SAFETY: the path is a terminated string that lives for the call.
            unsafe { clef_sys::ggml_backend_load_all_from_path(path.as_ptr()) };
            return;
        }
    }
    // SAFETY: no requirements.
    unsafe { clef_sys::ggml_backend_load_all() };
}

/// What kind of hardware a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The host's processors.
    Cpu,
    /// A graphics card with its own memory.
    Gpu,
    /// A graphics unit that shares the host's memory.
    IntegratedGpu,
    /// A helper of the CPU backend (BLAS, AMX).
    Accelerator,
}

/// A device of one of the compiled backends. Devices live as long as the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Device(ggml_backend_dev_t);

// SAFETY: ggml's devices are immutable descriptors in static storage; every query on them is read-only.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The host's processors.
    pub fn cpu() -> Self {
        start();
        // SAFETY: no requirements; returns NULL or a device in static storage.
        let device = unsafe { clef_sys::ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) };
        assert!(!device.is_null(), "every build of llama.cpp has a CPU backend");
        Self(device)
    }

    pub(crate) fn from_raw(device: ggml_backend_dev_t) -> Option<Self> {
        (!device.is_null()).then_some(Self(device))
    }

    pub(crate) fn as_raw(self) -> ggml_backend_dev_t {
        self.0
    }

    /// The memory that its tensors lie in unless another is asked for.
    pub(crate) fn buffer_type(self) -> BufferType {
        // SAFETY: the device is live.
        let buffer_type = unsafe { clef_sys::ggml_backend_dev_buffer_type(self.0) };
        // SAFETY: it was just returned.
        unsafe { BufferType::from_raw(buffer_type) }.expect("every device has memory")
    }

    /// The backend's name for the device, such as `CUDA0` or `CPU`.
    pub fn name(self) -> String {
        // SAFETY: the device is live; the string has static lifetime.
        let name = unsafe { clef_sys::ggml_backend_dev_name(self.0) };
        // SAFETY: ggml returns a terminated string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// What a person would call the device, such as the model of the card.
    pub fn description(self) -> String {
        // SAFETY: the device is live; the string lives as long as the device.
        let text = unsafe { clef_sys::ggml_backend_dev_description(self.0) };
        // SAFETY: ggml returns a terminated string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Free and total memory in bytes, as the backend reports them.
    pub fn memory(self) -> (usize, usize) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the device is live and both pointers are valid for writes.
        unsafe { clef_sys::ggml_backend_dev_memory(self.0, &raw mut free, &raw mut total) };
        (free, total)
    }

    /// What kind of hardware it is.
    pub fn kind(self) -> DeviceKind {
        // SAFETY: the device is live.
        match unsafe { clef_sys::ggml_backend_dev_type(self.0) } {
            GGML_BACKEND_DEVICE_TYPE_CPU => DeviceKind::Cpu,
            GGML_BACKEND_DEVICE_TYPE_IGPU => DeviceKind::IntegratedGpu,
            GGML_BACKEND_DEVICE_TYPE_ACCEL => DeviceKind::Accelerator,
            _ => DeviceKind::Gpu,
        }
    }
}

/// A kind of memory that tensors can be placed in. Lives as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferType(ggml_backend_buffer_type_t);

// SAFETY: ggml's buffer types are immutable descriptors in static storage.
unsafe impl Send for BufferType {}
// SAFETY: as above.
unsafe impl Sync for BufferType {}

impl BufferType {
    /// # Safety
    /// `buffer_type` must be one that ggml returned.
    pub(crate) unsafe fn from_raw(buffer_type: ggml_backend_buffer_type_t) -> Option<Self> {
        (!buffer_type.is_null()).then_some(Self(buffer_type))
    }

    pub(crate) fn as_raw(self) -> ggml_backend_buffer_type_t {
        self.0
    }

    /// ggml's name for it, such as `CPU_REPACK`.
    pub(crate) fn name(self) -> String {
        // SAFETY: the buffer type is live.
        let name = unsafe { clef_sys::ggml_backend_buft_name(self.0) };
        // SAFETY: ggml returns a terminated string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

/// All devices of the compiled backends.
pub fn devices() -> Vec<Device> {
    start();
    // SAFETY: no requirements.
    let count = unsafe { clef_sys::ggml_backend_dev_count() };
    (0..count)
        // SAFETY: the index is below the count just read, and devices are never unregistered.
        .filter_map(|index| Device::from_raw(unsafe { clef_sys::ggml_backend_dev_get(index) }))
        .collect()
}

/// Whether the CPU backend was built with AMX kernels and this CPU has the instructions.
pub(crate) fn has_amx() -> bool {
    #[cfg(not(feature = "dynamic-backends"))]
    // SAFETY: no requirements; a constant of the build.
    let has = unsafe { clef_sys::ggml_cpu_has_amx_int8() } != 0;
    // Modules choose their kernels when they are loaded, and cannot be asked.
    #[cfg(feature = "dynamic-backends")]
    let has = cfg!(target_arch = "x86_64");
    has
}
