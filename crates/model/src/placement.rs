//! Where a model is put: devices, memory, processors.

use clef_llama::{Device, DeviceKind, ModelParams, Numa, SplitMode, devices, gpus};

use crate::error::{Error, ErrorKind, Result};

/// Where a model is put. The defaults are llama.cpp's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Placement {
    /// GPUs by name, such as `CUDA0`, or by place in the list of devices; none for all, an empty list for the CPU alone.
    pub devices: Option<Vec<String>>,
    /// How the model is split among several GPUs.
    pub split_mode: SplitMode,
    /// Shares of the GPUs, in any unit; empty to share by their free memory.
    pub tensor_split: Vec<f32>,
    /// The GPU of [`SplitMode::None`], counted from zero.
    pub main_gpu: u32,
    /// How weights come into memory.
    pub load_mode: LoadMode,
    /// How threads are spread over memory nodes; for the whole process, and only once.
    pub numa: Option<Numa>,
}

/// How weights come into memory. They are read into memory of the process's own in any case, because the head shares
/// their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadMode {
    /// As is best.
    #[default]
    Auto,
    /// Read.
    None,
    /// Mapped, which is not to be had: as [`LoadMode::None`].
    Mmap,
    /// Read, and kept from being written to the disk where memory is short.
    Mlock,
    /// Mapped and kept: as [`LoadMode::Mlock`].
    MmapMlock,
    /// Read around the page cache, which is not to be had: as [`LoadMode::None`].
    DirectIo,
}

impl LoadMode {
    /// The modes by llama.cpp's names.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("auto", Self::Auto),
        ("none", Self::None),
        ("mmap", Self::Mmap),
        ("mlock", Self::Mlock),
        ("mmap+mlock", Self::MmapMlock),
        ("dio", Self::DirectIo),
    ];

    /// What is to be said about it, if it is not quite what was asked for.
    fn remark(self) -> Option<&'static str> {
        match self {
            Self::Auto | Self::None | Self::Mlock => None,
            Self::Mmap => Some("mmap: weights are read, not mapped, because the head shares their file; as with none"),
            Self::MmapMlock => {
                Some("mmap+mlock: weights are read, not mapped, because the head shares their file; as with mlock")
            }
            Self::DirectIo => Some("dio: weights are read through the page cache; as with none"),
        }
    }
}

/// The device of a name, or of a number in the list of devices, if layers can be placed on it.
pub fn find_gpu(name: &str) -> Option<Device> {
    let listed = || devices().into_iter().filter(|device| device.kind() != DeviceKind::Cpu);
    let gpus = gpus();
    let by_name = listed().find(|device| device.name() == name);
    let found = by_name.or_else(|| listed().nth(name.parse().ok()?))?;
    gpus.contains(&found).then_some(found)
}

impl Placement {
    /// Does what has to be done before anything is computed, and says what is not as asked for.
    pub(crate) fn prepare(&self) {
        if let Some(how) = self.numa {
            clef_llama::spread_threads(how);
        }
        if let Some(remark) = self.load_mode.remark() {
            tracing::warn!("load mode {remark}");
        }
    }

    /// The GPUs that are used, or why they cannot be.
    pub(crate) fn gpus(&self) -> Result<Vec<Device>> {
        let Some(names) = &self.devices else { return Ok(gpus()) };
        let find = |name: &String| {
            let unknown = || {
                let known: Vec<String> = gpus().into_iter().map(Device::name).collect();
                let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
                Error::new(ErrorKind::InvalidOption, format_args!("no device {name:?} for layers: {known}"))
            };
            find_gpu(name).ok_or_else(unknown)
        };
        names.iter().map(find).collect()
    }

    /// Adds itself to how a model is loaded.
    pub(crate) fn complete(&self, params: &mut ModelParams) -> Result<()> {
        params.devices = self.devices.is_some().then(|| self.gpus()).transpose()?;
        params.split_mode = self.split_mode;
        params.tensor_split.clone_from(&self.tensor_split);
        params.main_gpu = self.main_gpu;
        params.lock_memory = matches!(self.load_mode, LoadMode::Mlock | LoadMode::MmapMlock);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(placement: &Placement) -> ModelParams {
        let mut params = ModelParams::default();
        placement.complete(&mut params).expect("sound");
        params
    }

    #[test]
    fn everything_reaches_the_parameters() {
        let placement = Placement {
            devices: Some(Vec::new()),
            split_mode: SplitMode::Row,
            tensor_split: vec![3.0, 1.0],
            main_gpu: 1,
            load_mode: LoadMode::Mlock,
            numa: None,
        };
        let params = completed(&placement);
        assert_eq!(params.devices, Some(Vec::new()));
        assert_eq!((params.split_mode, params.main_gpu, params.lock_memory), (SplitMode::Row, 1, true));
        assert_eq!(params.tensor_split, [3.0, 1.0]);
        let default = completed(&Placement::default());
        assert_eq!((default.devices, default.lock_memory), (None, false));
    }

    #[test]
    fn an_unknown_device_is_named() {
        let placement = Placement { devices: Some(vec!["CUDA77".to_owned()]), ..Placement::default() };
        let error = placement.complete(&mut ModelParams::default()).expect_err("there is none").to_string();
        assert!(error.contains("\"CUDA77\""), "{error}");
        assert!(find_gpu("CPU").is_none() && find_gpu("").is_none() && find_gpu("4096").is_none());
    }

    #[test]
    fn only_modes_that_are_not_as_asked_for_are_remarked_on() {
        let remarked: Vec<&str> =
            LoadMode::NAMES.iter().filter(|(_, mode)| mode.remark().is_some()).map(|(name, _)| *name).collect();
        assert_eq!(remarked, ["mmap", "mmap+mlock", "dio"]);
    }
}
