//! Reads a device's energy counter, utilisation and memory, by NVML.
//!
//! The counter runs from the driver's start: the energy of some work is the difference of two samples. It counts the whole
//! board, whoever uses it: [`boards`](crate::boards) shares it out. NVML numbers devices without regard to
//! `CUDA_VISIBLE_DEVICES`, so a device is found by its UUID.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::sync::OnceLock;

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum EnergyError {
    /// No libnvidia-ml.
    #[error("NVML (libnvidia-ml.so.1) was not found: it comes with NVIDIA's driver; energy is not counted")]
    Absent(#[source] NvmlError),
    /// It is there, and does not start.
    #[error("NVML does not start; energy is not counted")]
    Unusable(#[source] NvmlError),
    /// It does not know the device.
    #[error("NVML knows no device {uuid}")]
    NoDevice {
        /// As the driver writes it.
        uuid: String,
        /// What NVML said.
        source: NvmlError,
    },
    /// It cannot tell.
    #[error("NVML does not tell the {what} of {uuid}")]
    Untold {
        /// What was asked.
        what: &'static str,
        /// The device.
        uuid: String,
        /// What NVML said.
        source: NvmlError,
    },
}

/// A device's counters.
#[derive(Debug)]
pub struct Meter {
    device: Device<'static>,
    uuid: String,
}

/// What the counters said at one time. What a device does not count is `None`: a slice of a device has no energy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Since the driver was started.
    pub millijoules: Option<u64>,
    /// Percent of the last sampling period (up to a second) in which some kernel ran.
    pub utilisation: Option<u32>,
    /// Bytes of memory that are taken, by all processes.
    pub memory_used: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl Meter {
    /// The counters of the device with this UUID, as [`Driver::uuid`](crate::Driver::uuid) tells it.
    ///
    /// # Errors
    /// [`EnergyError::Absent`], [`EnergyError::Unusable`], [`EnergyError::NoDevice`].
    pub fn open(uuid: &str) -> Result<Self, EnergyError> {
        let nvml = start()?;
        let no_device = |source| EnergyError::NoDevice { uuid: uuid.to_owned(), source };
        // The driver tells a slice's bytes the same way, and NVML wants another word before them.
        let slice = || nvml.device_by_uuid(uuid.replacen("GPU-", "MIG-", 1));
        let device = nvml.device_by_uuid(uuid).or_else(|source| slice().map_err(|_| no_device(source)))?;
        Ok(Self { device, uuid: uuid.to_owned() })
    }

    /// The energy counter alone; none where the device has none, or cannot be asked.
    pub fn millijoules(&self) -> Option<u64> {
        self.device.total_energy_consumption().ok()
    }

    /// What the counters say now.
    ///
    /// # Errors
    /// [`EnergyError::Untold`] when not even the memory can be read.
    pub fn sample(&self) -> Result<Sample, EnergyError> {
        let untold = |source| EnergyError::Untold { what: "memory", uuid: self.uuid.clone(), source };
        let memory = self.device.memory_info().map_err(untold)?;
        Ok(Sample {
            millijoules: self.millijoules(),
            utilisation: self.device.utilization_rates().ok().map(|rates| rates.gpu),
            memory_used: memory.used,
            memory: memory.total,
        })
    }
}

/// The driver's release, as NVML tells it: "580.159.04".
///
/// # Errors
/// [`EnergyError::Absent`], [`EnergyError::Unusable`].
pub fn release() -> Result<String, EnergyError> {
    start()?.sys_driver_version().map_err(EnergyError::Unusable)
}

/// NVML, started once for the process.
fn start() -> Result<&'static Nvml, EnergyError> {
    static NVML: OnceLock<Nvml> = OnceLock::new();
    if let Some(nvml) = NVML.get() {
        return Ok(nvml);
    }
    let nvml = Nvml::init().map_err(|error| match error {
        NvmlError::LibloadingError(_) => EnergyError::Absent(error),
        _ => EnergyError::Unusable(error),
    })?;
    Ok(NVML.get_or_init(|| nvml))
}
