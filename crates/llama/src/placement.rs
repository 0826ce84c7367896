//! Which devices a model is put on, and how, in llama.cpp's terms.
//!
//! llama.cpp takes null-terminated lists and arrays of the length that it names, and ends the process or fails with a
//! line in its log where they make no sense. Here they are checked and kept alive for as long as they are read.

use clef_sys::{
    GGML_NUMA_STRATEGY_DISTRIBUTE, GGML_NUMA_STRATEGY_ISOLATE, GGML_NUMA_STRATEGY_NUMACTL, LLAMA_LOAD_MODE_MLOCK,
    LLAMA_LOAD_MODE_NONE, LLAMA_SPLIT_MODE_LAYER, LLAMA_SPLIT_MODE_NONE, LLAMA_SPLIT_MODE_ROW, LLAMA_SPLIT_MODE_TENSOR,
    ggml_backend_dev_t,
};

use crate::backend::{Device, DeviceKind, devices};
use crate::error::{Error, Result};
use crate::model::ModelParams;

/// How a model is split among several GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SplitMode {
    /// All of it on one GPU.
    None,
    /// Whole layers with their keys and values.
    #[default]
    Layer,
    /// Rows of the weights, where the backend can.
    Row,
    /// Rows of weights, keys and values; experimental in llama.cpp.
    Tensor,
}

impl SplitMode {
    fn as_raw(self) -> clef_sys::llama_split_mode {
        match self {
            Self::None => LLAMA_SPLIT_MODE_NONE,
            Self::Layer => LLAMA_SPLIT_MODE_LAYER,
            Self::Row => LLAMA_SPLIT_MODE_ROW,
            Self::Tensor => LLAMA_SPLIT_MODE_TENSOR,
        }
    }
}

/// How threads are spread on machines with several memory nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numa {
    /// Evenly over all nodes.
    Distribute,
    /// On the node where the program was started.
    Isolate,
    /// As `numactl` says.
    Numactl,
}

impl Numa {
    pub(crate) fn as_raw(self) -> clef_sys::ggml_numa_strategy {
        match self {
            Self::Distribute => GGML_NUMA_STRATEGY_DISTRIBUTE,
            Self::Isolate => GGML_NUMA_STRATEGY_ISOLATE,
            Self::Numactl => GGML_NUMA_STRATEGY_NUMACTL,
        }
    }
}

/// The GPUs that layers can be placed on, in the order of the backends.
pub fn gpus() -> Vec<Device> {
    let is_gpu = |device: &Device| matches!(device.kind(), DeviceKind::Gpu | DeviceKind::IntegratedGpu);
    devices().into_iter().filter(is_gpu).collect()
}

/// [`ModelParams`] as llama.cpp takes them.
pub(crate) struct RawParams {
    /// Points into the two lists, which must live as long as it is read.
    pub(crate) raw: clef_sys::llama_model_params,
    /// Ends with a null; empty to leave the choice to llama.cpp.
    devices: Vec<ggml_backend_dev_t>,
    /// One for each device that llama.cpp could have; empty for equal parts of the free memory.
    shares: Vec<f32>,
}

impl RawParams {
    pub(crate) fn new(params: &ModelParams) -> Result<Self> {
        check(params)?;
        let mut devices: Vec<ggml_backend_dev_t> = Vec::new();
        if let Some(chosen) = &params.devices {
            devices.extend(chosen.iter().map(|device| device.as_raw()));
            devices.push(std::ptr::null_mut());
        }
        let mut shares = params.tensor_split.clone();
        if !shares.is_empty() {
            shares.resize(most_devices(), 0.0);
        }
        // SAFETY: no requirements.
        let raw = unsafe { clef_sys::llama_model_default_params() };
        let mut all = Self { raw, devices, shares };
        all.raw.n_gpu_layers = params.gpu_layers;
        all.raw.load_mode = if params.lock_memory { LLAMA_LOAD_MODE_MLOCK } else { LLAMA_LOAD_MODE_NONE };
        all.raw.use_extra_bufts = params.repack;
        all.raw.check_tensors = params.check_tensors;
        all.raw.split_mode = params.split_mode.as_raw();
        all.raw.main_gpu = i32::try_from(params.main_gpu).unwrap_or(i32::MAX);
        if !all.devices.is_empty() {
            all.raw.devices = all.devices.as_mut_ptr();
        }
        if !all.shares.is_empty() {
            all.raw.tensor_split = all.shares.as_ptr();
        }
        Ok(all)
    }
}

/// The most devices that this build could have.
fn most_devices() -> usize {
    // SAFETY: no requirements; a constant of the build.
    unsafe { clef_sys::llama_max_devices() }
}

fn check(params: &ModelParams) -> Result<()> {
    let named = params.devices.as_deref();
    if let Some(cpu) = named.unwrap_or_default().iter().find(|device| !gpus().contains(device)) {
        return Err(Error::argument(format_args!("{} is no device that layers can be placed on", cpu.name())));
    }
    let count = named.map_or_else(|| gpus().len(), <[Device]>::len);
    if params.split_mode == SplitMode::Tensor && count == 0 {
        return Err(Error::argument("split mode tensor needs a GPU, and none is used"));
    }
    if params.split_mode == SplitMode::None && count > 0 && params.main_gpu as usize >= count {
        return Err(Error::argument(format_args!("GPU {} is the main one, and there are {count}", params.main_gpu)));
    }
    let shares = &params.tensor_split;
    let most = most_devices();
    if shares.len() > most {
        return Err(Error::argument(format_args!("{} shares of a model, at most {most} devices", shares.len())));
    }
    if !shares.is_empty()
        && (shares.iter().any(|share| !share.is_finite() || *share < 0.0) || shares.iter().all(|&share| share == 0.0))
    {
        return Err(Error::argument("shares of a model must be numbers from 0 on, and one of them more than that"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(change: impl FnOnce(&mut ModelParams)) -> Result<RawParams> {
        let mut params = ModelParams::default();
        change(&mut params);
        RawParams::new(&params)
    }

    #[test]
    fn by_default_llama_cpp_chooses_devices_and_shares() {
        let all = raw(|_| {}).expect("defaults are sound");
        assert!(all.raw.devices.is_null() && all.raw.tensor_split.is_null());
        assert_eq!((all.raw.n_gpu_layers, all.raw.split_mode, all.raw.main_gpu), (-1, LLAMA_SPLIT_MODE_LAYER, 0));
        assert_eq!(all.raw.load_mode, LLAMA_LOAD_MODE_NONE);
    }

    #[test]
    fn no_device_is_a_list_of_nothing() {
        let all = raw(|params| params.devices = Some(Vec::new())).expect("the CPU is always there");
        assert_eq!(all.devices, [std::ptr::null_mut()]);
        assert_eq!(all.raw.devices.cast_const(), all.devices.as_ptr());
    }

    #[test]
    fn shares_are_filled_up_with_nothing() {
        let all = raw(|params| params.tensor_split = vec![3.0, 1.0]).expect("sound");
        assert_eq!(all.raw.tensor_split, all.shares.as_ptr());
        assert_eq!(all.shares.len(), most_devices());
        assert_eq!(all.shares[..2], [3.0, 1.0]);
        assert!(all.shares[2..].iter().all(|&share| share == 0.0));
    }

    #[test]
    fn modes_and_the_main_gpu_are_handed_on() {
        for (mode, expected) in [(SplitMode::None, LLAMA_SPLIT_MODE_NONE), (SplitMode::Row, LLAMA_SPLIT_MODE_ROW)] {
            let all = raw(|params| params.split_mode = mode).expect("sound");
            assert_eq!(all.raw.split_mode, expected);
        }
        let locked = raw(|params| (params.lock_memory, params.main_gpu) = (true, 3)).expect("sound");
        assert_eq!((locked.raw.load_mode, locked.raw.main_gpu), (LLAMA_LOAD_MODE_MLOCK, 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_llama_cpp_sees_it() {
        assert!(raw(|params| params.devices = Some(vec![Device::cpu()])).is_err());
        assert!(raw(|params| (params.devices, params.split_mode) = (Some(Vec::new()), SplitMode::Tensor)).is_err());
        for shares in [vec![0.0], vec![-1.0, 2.0], vec![f32::NAN], vec![1.0; 1000]] {
            assert!(raw(|params| params.tensor_split = shares).is_err());
        }
    }
}
