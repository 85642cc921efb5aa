//! Reads a device's energy counter, utilisation and memory, by NVML.
//!
//! The counter runs from the driver's start: the energy of some work is the difference of two samples. A call takes
//! milliseconds, so none is made where work waits for it. The counter counts the whole board for all users;
//! [`boards`](crate::boards) divides it. NVML numbers devices without regard to `CUDA_VISIBLE_DEVICES`, so a device is
//! found by its UUID.

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::sync::OnceLock;

/// A failure to read a sample.
#[derive(Debug, thiserror::Error)]
pub enum EnergyError {
    /// libnvidia-ml is absent.
    #[error("NVML (libnvidia-ml.so.1) was not found: it comes with NVIDIA's driver; energy is not counted")]
    Absent(#[source] NvmlError),
    /// It is there, but does not start.
    #[error("NVML does not start; energy is not counted")]
    Unusable(#[source] NvmlError),
    /// It does not know the device.
    #[error("NVML knows no device {uuid}")]
    NoDevice {
        /// As the driver writes it.
        uuid: String,
        /// NVML's error.
        source: NvmlError,
    },
    /// The thread that reads the counters could not be started.
    #[error("the thread that reads NVML's counters cannot be started; energy is not counted")]
    Observer(#[source] std::io::Error),
    /// It does not report a value.
    #[error("NVML does not tell the {what} of {uuid}")]
    Untold {
        /// The value.
        what: &'static str,
        /// The device.
        uuid: String,
        /// NVML's error.
        source: NvmlError,
    },
}

/// A device's counters.
#[derive(Debug)]
pub struct EnergyMeter {
    device: Device<'static>,
    uuid: String,
}

/// The counters at one time, each `None` if the device does not have it: a slice of a device has no energy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSample {
    /// Since the driver was started.
    pub millijoules: Option<u64>,
    /// Percent of the last sampling period (up to a second) with some kernel running.
    pub utilisation: Option<u32>,
    /// Bytes of memory in use, by all processes.
    pub memory_used: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl EnergyMeter {
    /// The counters of the device with this UUID, as [`Driver::uuid`](crate::Driver::uuid) gives it.
    ///
    /// # Errors
    /// [`EnergyError::Absent`], [`EnergyError::Unusable`], [`EnergyError::NoDevice`].
    pub fn open(uuid: &str) -> Result<Self, EnergyError> {
        let nvml = start_nvml()?;
        let no_device = |source| EnergyError::NoDevice { uuid: uuid.to_owned(), source };
        // The driver writes a slice's bytes the same way, but NVML wants another prefix.
        let slice = || nvml.device_by_uuid(uuid.replacen("GPU-", "MIG-", 1));
        let device = nvml.device_by_uuid(uuid).or_else(|source| slice().map_err(|_| no_device(source)))?;
        Ok(Self { device, uuid: uuid.to_owned() })
    }

    /// The energy counter alone; `None` if the device has none, or cannot be asked.
    pub fn millijoules(&self) -> Option<u64> {
        self.device.total_energy_consumption().ok()
    }

    /// Reads the counters now.
    ///
    /// # Errors
    /// [`EnergyError::Untold`] if not even the memory can be read.
    pub fn sample(&self) -> Result<CounterSample, EnergyError> {
        let untold = |source| EnergyError::Untold { what: "memory", uuid: self.uuid.clone(), source };
        let memory = self.device.memory_info().map_err(untold)?;
        Ok(CounterSample {
            millijoules: self.millijoules(),
            utilisation: self.device.utilization_rates().ok().map(|rates| rates.gpu),
            memory_used: memory.used,
            memory: memory.total,
        })
    }
}

/// The driver's release, as NVML reports it: "580.159.04".
///
/// # Errors
/// [`EnergyError::Absent`], [`EnergyError::Unusable`].
pub fn driver_release() -> Result<String, EnergyError> {
    start_nvml()?.sys_driver_version().map_err(EnergyError::Unusable)
}

/// NVML, started once for the process.
fn start_nvml() -> Result<&'static Nvml, EnergyError> {
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
