//! Devices by name: `cpu`, `cpu-avx2`, `cpu-avx512`; `cuda`, `cuda:1`, `cuda-f32`, `cuda-f32:1`.
//!
//! Only this module knows the kinds of devices. `cuda` without a number depends on the worker: the first worker takes
//! the first device in `CUDA_VISIBLE_DEVICES`, the second worker the second, and round again.

use crate::LmError;
use crate::engine::{EngineOptions, PoolTokens};
use crate::session::Session;
use hopeval_cuda::machine::{self, MissingRequirement};
use hopeval_cuda::{Cuda, Driver};
use hopeval_device::conformance::{self, Arithmetic, Operation};
use hopeval_device::cpu::InstructionSet;
use hopeval_device::{Cpu, DeviceError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The device of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceName {
    /// The CPU, with the best instructions it has.
    #[default]
    Cpu,
    /// The CPU with AVX2 alone: the same last digits on hosts with and without AVX-512.
    CpuAvx2,
    /// The CPU with AVX-512; an error on CPUs without it.
    CpuAvx512,
    /// A CUDA device.
    Cuda {
        /// Computes in `f32`, to check bf16 against.
        exact: bool,
        /// The device's number; `None` leaves the choice to the worker.
        ordinal: Option<usize>,
    },
}

/// The possible names of a device.
const NAMES: &str = "cpu, cpu-avx2, cpu-avx512, cuda, cuda:N, cuda-f32, cuda-f32:N";

/// An unknown device name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no device {name:?}; allowed are {NAMES}")]
pub struct UnknownDevice {
    name: String,
}

impl FromStr for DeviceName {
    type Err = UnknownDevice;

    fn from_str(name: &str) -> Result<Self, UnknownDevice> {
        let unknown = || UnknownDevice { name: name.to_owned() };
        let cuda = |rest: &str, exact| match rest.strip_prefix(':') {
            Some(digits) if !digits.starts_with('+') => {
                digits.parse().map(|ordinal| Self::Cuda { exact, ordinal: Some(ordinal) }).map_err(|_| unknown())
            }
            None if rest.is_empty() => Ok(Self::Cuda { exact, ordinal: None }),
            _ => Err(unknown()),
        };
        match name {
            "cpu" => Ok(Self::Cpu),
            "cpu-avx2" => Ok(Self::CpuAvx2),
            "cpu-avx512" => Ok(Self::CpuAvx512),
            _ => match (name.strip_prefix("cuda-f32"), name.strip_prefix("cuda")) {
                (Some(rest), _) => cuda(rest, true),
                (None, Some(rest)) => cuda(rest, false),
                (None, None) => Err(unknown()),
            },
        }
    }
}

impl TryFrom<String> for DeviceName {
    type Error = UnknownDevice;

    fn try_from(name: String) -> Result<Self, UnknownDevice> {
        name.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::CpuAvx2 => f.write_str("cpu-avx2"),
            Self::CpuAvx512 => f.write_str("cpu-avx512"),
            Self::Cuda { exact, ordinal } => {
                f.write_str(if *exact { "cuda-f32" } else { "cuda" })?;
                ordinal.map_or(Ok(()), |ordinal| write!(f, ":{ordinal}"))
            }
        }
    }
}

impl DeviceName {
    /// The engine's default options for such a device. A GPU needs large batches: below some hundred tokens it waits
    /// for its weights, and each batch costs hundreds of launches. The pools between batches grow with its free memory.
    pub fn default_options(self) -> EngineOptions {
        match self {
            Self::Cpu | Self::CpuAvx2 | Self::CpuAvx512 => EngineOptions::default(),
            Self::Cuda { .. } => {
                let states_tokens = PoolTokens { least: 65_536, most: 1 << 20 };
                let cache_tokens = PoolTokens { least: 16_384, most: 1 << 18 };
                EngineOptions { batch_tokens: 16_384, states_tokens, cache_tokens, ..EngineOptions::default() }
            }
        }
    }

    /// The number of devices for `workers` workers of a process. All devices of the driver count, even an unfit one:
    /// opening it gives an error instead of a silent, slower run.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`] if CUDA is asked for and there is no CUDA device.
    pub fn device_count(self, workers: usize) -> Result<usize, DeviceError> {
        match self {
            Self::Cuda { ordinal: None, .. } => {
                let unavailable = |missing: MissingRequirement| DeviceError::Unavailable {
                    name: "cuda".to_owned(),
                    reason: missing.to_string(),
                };
                Ok(machine::device_count().map_err(unavailable)?.min(workers.max(1)))
            }
            _ => Ok(1),
        }
    }

    /// Opens a model on the `nth` of these devices. A CPU gets `threads` threads, by default all threads of the
    /// process.
    ///
    /// # Errors
    /// [`LmError`], naming the device, the file, the tensor or the field.
    pub fn open(
        self,
        nth: usize,
        threads: Option<usize>,
        folder: &Path,
        options: EngineOptions,
    ) -> Result<Session, LmError> {
        let with = |isa| Ok::<_, LmError>(Cpu::with_isa(isa, threads)?);
        match self {
            Self::Cpu => Session::open(folder, Cpu::new(threads)?, options),
            Self::CpuAvx2 => Session::open(folder, with(InstructionSet::Avx2)?, options),
            Self::CpuAvx512 => Session::open(folder, with(InstructionSet::Avx512)?, options),
            Self::Cuda { exact, ordinal } => Session::open(folder, open_cuda(exact, ordinal.unwrap_or(nth))?, options),
        }
    }

    /// Runs the conformance suite of some operations on the device; also returns the device's name.
    ///
    /// # Errors
    /// [`DeviceError::Unavailable`].
    pub fn conformance(
        self,
        threads: Option<usize>,
        operations: &[Operation],
    ) -> Result<(String, conformance::ConformanceReport), DeviceError> {
        fn run<D: hopeval_device::Device>(
            device: &D,
            arithmetic: Arithmetic,
            operations: &[Operation],
        ) -> (String, conformance::ConformanceReport) {
            (device.identity().name, conformance::check_device(device, arithmetic, operations))
        }
        let exactly = Arithmetic::F32;
        Ok(match self {
            Self::Cpu => run(&Cpu::new(threads)?, exactly, operations),
            Self::CpuAvx2 => run(&Cpu::with_isa(InstructionSet::Avx2, threads)?, exactly, operations),
            Self::CpuAvx512 => run(&Cpu::with_isa(InstructionSet::Avx512, threads)?, exactly, operations),
            Self::Cuda { exact, ordinal } => {
                run(&open_cuda(exact, ordinal.unwrap_or(0))?, cuda_arithmetic(exact), operations)
            }
        })
    }
}

fn cuda_arithmetic(exact: bool) -> Arithmetic {
    if exact { Arithmetic::F32 } else { Arithmetic::Bf16 }
}

fn open_cuda(exact: bool, ordinal: usize) -> Result<Cuda<Driver>, DeviceError> {
    Ok(Cuda::new(Driver::open(ordinal, kernel_folder().as_deref())?, cuda_arithmetic(exact)))
}

/// The folder of compiled kernels, for all programs of this user; `None` without a home folder.
fn kernel_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Some(cache?.join("hopeval").join("kernels"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for name in ["cpu", "cpu-avx2", "cpu-avx512", "cuda", "cuda:0", "cuda:13", "cuda-f32", "cuda-f32:1"] {
            assert_eq!(name.parse::<DeviceName>().map(|device| device.to_string()), Ok(name.to_owned()));
        }
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda1", "cuda-f16", "cuda-f32:x", "CUDA"] {
            let error = wrong.parse::<DeviceName>().unwrap_err().to_string();
            assert!(error.contains("cpu-avx512, cuda, cuda:N"), "{error}");
        }
    }
}
