//! Which of the CPU's kernels are fastest for a file, by trying them.
//!
//! ggml can multiply with weights as they lie in the file, or rewrite them into other layouts while it loads them.
//! Which is faster depends on the CPU, the types of the weights and the compiler, so nothing but a measurement tells.
//! It has to be known before a model is loaded, and loading twice would take longer than a wrong choice costs. So
//! single products are timed: of each type that matters in the file, one matrix with the file's own data.

use std::ffi::CStr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::backend::{self, BufferType, Device, DeviceKind, devices};
use crate::error::{Error, Result};
use crate::gguf::{Gguf, TensorInfo, TensorType};
use crate::graph::{Compute, Graph, Metadata, Store, StoreBuilder};

/// How weights lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// As in the file.
    Plain,
    /// Rewritten for some kernels, where ggml has such a layout for the type.
    Repacked,
}

/// One way to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// How weights lie in memory.
    pub layout: Layout,
    /// CPU threads, 1 to 512.
    pub threads: u32,
}

/// Why weights are never repacked on this machine, if so.
pub fn repack_refusal() -> Option<&'static str> {
    backend::start();
    if backend::has_amx() {
        // gcc 12 compiles ggml's tile configuration into an illegal one; the process would end by a signal.
        return Some("weights cannot be repacked on a CPU with AMX");
    }
    // llama.cpp prefers memory that a graphics card reads for all of the CPU's weights, and has no other layouts there.
    let page_locked = |device: &Device| {
        // SAFETY: the device is live.
        let buffer_type = unsafe { clef_sys::ggml_backend_dev_host_buffer_type(device.as_raw()) };
        matches!(device.kind(), DeviceKind::Gpu | DeviceKind::IntegratedGpu) && !buffer_type.is_null()
    };
    devices().iter().any(page_locked).then_some("weights stay as they are in memory that a graphics card reads")
}

/// What ggml's CPU kernels were built for, such as `AVX2 AVX512 AVX512_VNNI`.
pub fn cpu_features() -> String {
    let Some(address) = cpu_function(c"ggml_backend_get_features") else { return String::new() };
    // SAFETY: the function of this name has this type.
    let function: clef_sys::ggml_backend_get_features_t = unsafe { std::mem::transmute(address) };
    let function = function.expect("it was found");
    // SAFETY: the registry is live.
    let mut feature = unsafe { function(cpu_registry()) }.cast_const();
    let mut names = Vec::new();
    while !feature.is_null() {
        // SAFETY: ggml returns a static array, which ends with an entry without a name.
        let name = unsafe { (*feature).name };
        if name.is_null() {
            break;
        }
        // SAFETY: names are terminated strings.
        names.push(unsafe { CStr::from_ptr(name) }.to_string_lossy());
        // SAFETY: the entry is not the last one.
        feature = unsafe { feature.add(1) };
    }
    names.join(" ")
}

fn cpu_registry() -> clef_sys::ggml_backend_reg_t {
    // SAFETY: the device is live.
    unsafe { clef_sys::ggml_backend_dev_backend_reg(Device::cpu().as_raw()) }
}

/// A function of the CPU backend's that is found by name, as the backend may be a module.
fn cpu_function(name: &CStr) -> Option<*mut std::ffi::c_void> {
    // SAFETY: the registry is live and the name a terminated string.
    let address = unsafe { clef_sys::ggml_backend_reg_get_proc_address(cpu_registry(), name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The CPU's other kinds of memory, whose tensors are rewritten when they are set, in llama.cpp's order of preference.
fn extra_buffer_types() -> Vec<BufferType> {
    let Some(address) = cpu_function(c"ggml_backend_dev_get_extra_bufts") else { return Vec::new() };
    // SAFETY: the function of this name has this type.
    let function: clef_sys::ggml_backend_dev_get_extra_bufts_t = unsafe { std::mem::transmute(address) };
    let function = function.expect("it was found");
    // SAFETY: the device is live.
    let mut entry = unsafe { function(Device::cpu().as_raw()) }.cast_const();
    let mut found = Vec::new();
    while !entry.is_null() {
        // SAFETY: ggml returns a static array, which ends with a null.
        let raw = unsafe { *entry };
        // SAFETY: ggml returned it.
        let Some(buffer_type) = (unsafe { BufferType::from_raw(raw) }) else { break };
        // Its kernels may end the process (see `repack_refusal`); it is not even to be tried.
        if buffer_type.name() != "AMX" {
            found.push(buffer_type);
        }
        // SAFETY: the entry is not the last one.
        entry = unsafe { entry.add(1) };
    }
    found
}

/// Whether the CPU backend multiplies with weights of this kind in that memory.
fn multiplies(kind: TensorType, columns: u64, rows: u64, buffer_type: BufferType) -> Result<bool> {
    let context = Metadata::new(3)?;
    let new_matrix = |kind: TensorType, rows: u64| {
        let lengths = [columns as i64, rows as i64];
        // SAFETY: the context is live and has room for three tensors; the caller checked that rows fit the type.
        unsafe { clef_sys::ggml_new_tensor(context.0.as_ptr(), kind.as_raw(), 2, lengths.as_ptr()) }
    };
    let (weights, tokens) = (new_matrix(kind, rows), new_matrix(TensorType::F32, 512));
    // SAFETY: context and operands are live, there is room, and rows of both are equally long.
    let product = unsafe { clef_sys::ggml_mul_mat(context.0.as_ptr(), weights, tokens) };
    // An empty buffer, so that the question is about this memory.
    // SAFETY: the buffer type is live.
    let buffer = unsafe { clef_sys::ggml_backend_buft_alloc_buffer(buffer_type.as_raw(), 0) };
    // SAFETY: the tensor is live.
    unsafe { (*weights).buffer = buffer };
    // SAFETY: device and tensors are live.
    let supported = unsafe { clef_sys::ggml_backend_dev_supports_op(Device::cpu().as_raw(), product) };
    if !buffer.is_null() {
        // SAFETY: this is its only owner, and the tensor in it is not used any more.
        unsafe { clef_sys::ggml_backend_buffer_free(buffer) };
    }
    Ok(supported && !buffer.is_null())
}

/// The weights of one type.
#[derive(Debug, Clone)]
struct Share<'a> {
    kind: TensorType,
    /// All bytes of matrices of the type.
    bytes: u64,
    /// One of the shape that has the most bytes.
    tensor: &'a TensorInfo,
    /// Where its repacked form lies, if there is one.
    repacked: Option<BufferType>,
}

/// The matrices that a file's backbone multiplies with, by type.
#[derive(Debug, Clone)]
pub struct Matrices<'a> {
    gguf: &'a Gguf,
    shares: Vec<Share<'a>>,
}

/// Types are left out where the others make up this much.
const ENOUGH: f64 = 0.9;
const MAX_TYPES: usize = 4;

impl<'a> Matrices<'a> {
    /// Reads from a file's header which matrices its first `layers` layers have.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn of(gguf: &'a Gguf, layers: u32) -> Result<Self> {
        let mut shares: Vec<Share<'a>> = Vec::new();
        let all: Vec<&TensorInfo> = gguf.tensors().iter().filter(|tensor| is_matrix(tensor, layers)).collect();
        let shape_bytes = |wanted: &TensorInfo| -> u64 {
            let alike = all.iter().filter(|t| t.kind == wanted.kind && t.shape == wanted.shape);
            alike.map(|tensor| tensor.bytes).sum()
        };
        for &tensor in &all {
            match shares.iter_mut().find(|share| share.kind == tensor.kind) {
                Some(share) => {
                    share.bytes += tensor.bytes;
                    if tensor.shape != share.tensor.shape && shape_bytes(tensor) > shape_bytes(share.tensor) {
                        share.tensor = tensor;
                    }
                }
                None => shares.push(Share { kind: tensor.kind, bytes: tensor.bytes, tensor, repacked: None }),
            }
        }
        shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.kind));
        let total: u64 = shares.iter().map(|share| share.bytes).sum();
        let mut sum = 0;
        shares.retain(|share| {
            let wanted = (sum as f64) < ENOUGH * total as f64;
            sum += share.bytes;
            wanted
        });
        shares.truncate(MAX_TYPES);
        let extra = extra_buffer_types();
        for share in &mut shares {
            for &buffer_type in &extra {
                if multiplies(share.kind, share.tensor.shape[0], share.tensor.shape[1], buffer_type)? {
                    share.repacked = Some(buffer_type);
                    break;
                }
            }
        }
        Ok(Self { gguf, shares })
    }

    /// Whether any of them would be repacked.
    pub fn can_repack(&self) -> bool {
        self.shares.iter().any(|share| share.repacked.is_some())
    }

    /// In words, for telling files apart: type, shape, bytes, and where its repacked form would lie.
    pub fn describe(&self) -> String {
        let parts = self.shares.iter().map(|share| {
            let [columns, rows, ..] = share.tensor.shape;
            let repacked = share.repacked.map_or_else(|| "-".to_owned(), BufferType::name);
            format!("{} {columns}x{rows} {} {repacked}", share.kind.name(), share.bytes)
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Loads one matrix of each type, to be multiplied with the hidden states of `tokens` tokens by up to
    /// `most_threads` threads. Large matrices are cut: beside other programs, the best of several short times says more
    /// than one long time.
    ///
    /// # Errors
    /// If memory runs out, or `tokens` or `most_threads` is 0 or beyond what a context takes.
    pub fn load(&self, tokens: u32, most_threads: u32) -> Result<Bench> {
        if !(1..=65_536).contains(&tokens) || !(1..=MAX_THREADS).contains(&most_threads) {
            return Err(Error::argument(format_args!("{tokens} tokens, {most_threads} threads")));
        }
        let most_elements = PRODUCT_OPERATIONS / u64::from(tokens) * u64::from(most_threads.min(MOST_SHARES));
        let plain = Device::cpu().buffer_type();
        let load = |share| Sample::load(self.gguf, share, plain, tokens as usize, most_elements);
        Ok(Bench { samples: self.shares.iter().map(load).collect::<Result<_>>()?, computes: Vec::new() })
    }
}

/// Whether a layer multiplies hidden states with it. (The embedding is only looked up, the convolution is another
/// operation.)
fn is_matrix(tensor: &TensorInfo, layers: u32) -> bool {
    let layer = tensor.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let counts = layer.is_some_and(|(number, name)| {
        number.parse::<u32>().is_ok_and(|number| number < layers) && name != "ssm_conv1d.weight"
    });
    let [columns, rows, third, fourth] = tensor.shape;
    counts
        && rows > 1
        && (third, fourth) == (1, 1)
        && tensor.kind.is_weight()
        && tensor.kind.row_bytes(columns).and_then(|row| row.checked_mul(rows)) == Some(tensor.bytes)
}

/// Multiplications in a product, for each of so many threads. A core does some 5 to 100 thousand million in a second.
const PRODUCT_OPERATIONS: u64 = 400_000_000;
const MOST_SHARES: u32 = 16;
/// With fewer rows than this, rewriting the hidden states takes up too much of the time (`docs/performance.md`).
const LEAST_ROWS: u64 = 1024;
/// Rows are cut to whole multiples of this, so that all layouts take them.
const ROW_UNIT: u64 = 64;
const MAX_THREADS: u32 = 512;
/// Weights, hidden states and their product.
const GRAPH_NODES: usize = 4;
/// What tells a difference from chance, after [`SURE_ROUNDS`] rounds.
const CLEAR: f64 = 1.25;
const SURE_ROUNDS: usize = 5;

/// What time is taken by; only differences count.
type Clock = fn() -> Duration;

fn wall_time() -> Duration {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    ORIGIN.elapsed()
}

/// The time that this thread has run: what other programs take from it does not count.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for writes.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every system that this builds for has the clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A helper of the CPU's (a BLAS), to which llama.cpp gives products where there is one.
fn accelerator() -> Option<Device> {
    devices().into_iter().find(|device| device.kind() == DeviceKind::Accelerator)
}

/// A matrix in memory, and hidden states to multiply it with.
#[derive(Debug)]
struct Sample {
    plain: Store,
    repacked: Option<Store>,
    columns: usize,
    hidden_states: Vec<f32>,
    tokens: usize,
    /// How much more the file has of the type.
    factor: f64,
}

const WEIGHTS: &str = "weights";

impl Sample {
    fn load(gguf: &Gguf, share: &Share<'_>, plain: BufferType, tokens: usize, most_elements: u64) -> Result<Self> {
        let [columns, all_rows, ..] = share.tensor.shape;
        let rows = (most_elements / columns / ROW_UNIT * ROW_UNIT).max(LEAST_ROWS).min(all_rows);
        let bytes = (share.tensor.bytes / all_rows * rows) as usize;
        // Blocks hold 16-bit fields; a mapped file only promises the alignment that its header claims.
        let mut words = vec![0_u128; bytes.div_ceil(size_of::<u128>())];
        // SAFETY: the words are plain memory of at least that many bytes, used through this slice alone while it lives.
        let data = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), bytes) };
        data.copy_from_slice(&gguf.data(share.tensor)[..bytes]);
        let store = |buffer_type: BufferType| {
            let mut builder = StoreBuilder::default();
            builder.add(WEIGHTS, [columns as usize, rows as usize, 1, 1], share.kind);
            let mut store = builder.build_in(buffer_type, &buffer_type.name())?;
            store.set(WEIGHTS, data)?;
            Ok(store)
        };
        // A cut matrix may lack a layout that the whole one has.
        let repacked = match share.repacked {
            Some(buffer_type) if multiplies(share.kind, columns, rows, buffer_type)? => Some(store(buffer_type)?),
            _ => None,
        };
        // Kernels take as long for any numbers; these are from -1 to 1.
        let value = |index: u64| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        Ok(Self {
            plain: store(plain)?,
            repacked,
            columns: columns as usize,
            hidden_states: (0..columns * tokens as u64).map(value).collect(),
            tokens,
            factor: share.bytes as f64 / bytes as f64,
        })
    }

    fn multiply(&self, layout: Layout, compute: &mut Compute, clock: Clock) -> Result<(Vec<f32>, Duration)> {
        let store = match layout {
            Layout::Plain => &self.plain,
            Layout::Repacked => self.repacked.as_ref().unwrap_or(&self.plain),
        };
        let graph = Graph::new(GRAPH_NODES)?;
        let weights = store.get(WEIGHTS).expect("it was added");
        let hidden_states = graph.matrix(&self.hidden_states, self.columns, self.tokens);
        let product = graph.mul_mat(weights, hidden_states);
        let (mut values, took) = graph.run_timed(compute, &[product], clock)?;
        Ok((values.pop().expect("one output was asked for"), took))
    }
}

/// One matrix of each type of a file in memory, ready to be multiplied with.
#[derive(Debug)]
pub struct Bench {
    samples: Vec<Sample>,
    /// By number of threads.
    computes: Vec<(u32, Compute)>,
}

impl Bench {
    /// Seconds that all matrix products of the backbone take, for each setting: the best of several rounds, in each of
    /// which every setting has its turn. Ends when `limit` is over (but after one round) or when a setting is clearly
    /// the fastest. Where all settings have one thread, only the time counts in which it ran.
    ///
    /// # Errors
    /// If memory runs out, or a setting has no or too many threads.
    pub fn seconds(&mut self, settings: &[Setting], limit: Duration) -> Result<Vec<f64>> {
        let start = Instant::now();
        let alone = settings.iter().all(|setting| setting.threads == 1) && accelerator().is_none();
        let clock = if alone { thread_time } else { wall_time };
        let mut best = vec![vec![f64::INFINITY; settings.len()]; self.samples.len()];
        let totals = |best: &[Vec<f64>]| -> Vec<f64> {
            let of = |setting: usize| best.iter().map(|times| times[setting]).sum();
            (0..settings.len()).map(of).collect()
        };
        for round in 1.. {
            for (sample, times) in best.iter_mut().enumerate() {
                let factor = self.samples[sample].factor;
                for (index, &setting) in settings.iter().enumerate() {
                    let setting = self.effective(sample, setting);
                    // Two settings may come to the same for a type; then they are equally fast.
                    let same = settings[..index].iter().position(|&other| self.effective(sample, other) == setting);
                    if let Some(other) = same {
                        times[index] = times[other];
                        continue;
                    }
                    let (_, took) = self.multiply(sample, setting, clock)?;
                    times[index] = times[index].min(factor * took.as_secs_f64());
                }
            }
            let mut sorted = totals(&best);
            sorted.sort_by(f64::total_cmp);
            let clear = round >= SURE_ROUNDS && sorted.len() > 1 && sorted[1] > CLEAR * sorted[0];
            if clear || start.elapsed() >= limit || self.samples.is_empty() {
                break;
            }
        }
        Ok(totals(&best))
    }

    /// The products themselves, one for each type, row by row for each token: they differ between settings by rounding
    /// alone.
    ///
    /// # Errors
    /// As [`Bench::seconds`].
    pub fn products(&mut self, setting: Setting) -> Result<Vec<Vec<f32>>> {
        (0..self.samples.len()).map(|sample| Ok(self.multiply(sample, setting, wall_time)?.0)).collect()
    }

    /// A setting with the layout that a sample really has under it.
    fn effective(&self, sample: usize, setting: Setting) -> Setting {
        let plain = self.samples[sample].repacked.is_none();
        Setting { layout: if plain { Layout::Plain } else { setting.layout }, ..setting }
    }

    fn multiply(&mut self, sample: usize, setting: Setting, clock: Clock) -> Result<(Vec<f32>, Duration)> {
        let place = match self.computes.iter().position(|(threads, _)| *threads == setting.threads) {
            Some(place) => place,
            None => {
                if !(1..=MAX_THREADS).contains(&setting.threads) {
                    return Err(Error::argument(format_args!("{} threads", setting.threads)));
                }
                let device = accelerator().unwrap_or_else(Device::cpu);
                self.computes.push((setting.threads, Compute::new(device, setting.threads, GRAPH_NODES)?));
                self.computes.len() - 1
            }
        };
        self.samples[sample].multiply(setting.layout, &mut self.computes[place].1, clock)
    }
}
