//! The parts of this machine that CUDA needs: the driver and its devices, NVRTC, cuBLASLt, NVML.
//!
//! `hopeval doctor` shows [`CudaFacts`]. [`Driver::open`](crate::Driver::open) and the compiler call the same functions
//! first, because in `cudarc` a call into an absent library panics. Nothing here decides for the user:
//! `CUDA_VISIBLE_DEVICES` is the driver's matter, and devices keep the driver's numbers.

mod held_library;

use crate::energy::{self, EnergyError};
use cudarc::cublaslt::sys as products;
use cudarc::driver::{DriverError, result as driver, sys};
use cudarc::nvrtc::sys as nvrtc;
use held_library::HeldLibrary;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;

/// The version of a library, or of the CUDA interface of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LibraryVersion {
    /// 13 of 13.0.2.
    pub major: i32,
    /// 0 of 13.0.2.
    pub minor: i32,
    /// 2 of 13.0.2, if the library reports it.
    pub patch: Option<i32>,
}

impl LibraryVersion {
    /// A version of two parts.
    pub const fn new(major: i32, minor: i32) -> Self {
        Self { major, minor, patch: None }
    }

    /// Checks that a driver of this version serves a library: machine code and calls of a newer major version need its
    /// driver, while minor versions fit each other.
    ///
    /// # Errors
    /// [`MissingRequirement::NewLibrary`].
    pub fn check_served(self, library: &'static str, found: Self) -> Result<Self, MissingRequirement> {
        if found.major > self.major {
            return Err(MissingRequirement::NewLibrary { library, found, driver: self });
        }
        Ok(found)
    }
}

impl fmt::Display for LibraryVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// A device's compute capability: the machine code it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuArchitecture {
    /// 9 of 9.0.
    pub major: i32,
    /// 0 of 9.0.
    pub minor: i32,
}

impl GpuArchitecture {
    /// A compute capability.
    pub const fn new(major: i32, minor: i32) -> Self {
        Self { major, minor }
    }
}

/// As compilers call it: `sm_90`.
impl fmt::Display for GpuArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)
    }
}

/// The oldest CUDA version of the driver and the libraries: the first with `cuFuncGetParamInfo`. All other calls are
/// older, and none has changed up to 13.
pub const OLDEST_CUDA: LibraryVersion = LibraryVersion::new(12, 4);

/// The names of the libraries in messages.
pub(crate) const NVRTC_NAME: &str = "libnvrtc";
pub(crate) const CUBLASLT_NAME: &str = "libcublasLt";

/// The libraries that `cudarc` calls.
static DRIVER: HeldLibrary = HeldLibrary::new("cuda");
static NVRTC: HeldLibrary = HeldLibrary::new("nvrtc");
static CUBLASLT: HeldLibrary = HeldLibrary::new("cublasLt");

/// The first devices with tensor cores for bf16 and with asynchronous copies to shared memory.
pub const OLDEST_ARCHITECTURE: GpuArchitecture = GpuArchitecture::new(8, 0);

/// A reason that prevents the use of CUDA here, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingRequirement {
    /// libcuda is absent.
    #[error(
        "the CUDA driver (libcuda.so.1) was not found: install NVIDIA's driver, release 550 or later; in a container, \
         pass the devices and the driver through to it"
    )]
    Driver,
    /// libcuda is older than the interface used to call it.
    #[error(
        "the driver serves CUDA {found}, {OLDEST_CUDA} or later is needed: \
         install NVIDIA's driver, release 550 or later"
    )]
    OldDriver {
        /// The driver's CUDA version.
        found: LibraryVersion,
    },
    /// A call failed before there was a device.
    #[error("{call} failed with {said}: see whether `nvidia-smi` lists devices, and which processes use them")]
    Broken {
        /// The call.
        call: &'static str,
        /// The driver's error.
        said: String,
    },
    /// The driver shows no devices.
    #[error("the driver shows no device: see whether `nvidia-smi` lists one, and what CUDA_VISIBLE_DEVICES is set to")]
    Device,
    /// The driver shows fewer devices.
    #[error("the driver shows {devices} (cuda:0 is the first): CUDA_VISIBLE_DEVICES says which it shows")]
    Ordinal {
        /// The number of devices.
        devices: usize,
    },
    /// The device is too old.
    #[error(
        "{name} has compute capability {}.{}, {}.{} or later is needed (Ampere): CUDA_VISIBLE_DEVICES says which \
         devices there are, leave this one out",
        found.major, found.minor, OLDEST_ARCHITECTURE.major, OLDEST_ARCHITECTURE.minor
    )]
    OldDevice {
        /// The device.
        name: String,
        /// Its architecture.
        found: GpuArchitecture,
    },
    /// The device has no pools of memory: some virtual devices.
    #[error(
        "{name} has no memory pools (cuMemAllocAsync): use a device that is not shared this way; \
         CUDA_VISIBLE_DEVICES says which devices there are"
    )]
    Pools {
        /// The device.
        name: String,
    },
    /// libnvrtc is absent.
    #[error(
        "libnvrtc.so.13 or .so.12 was not found: pip install 'nvidia-cuda-nvrtc==13.0.*' and put its folder \
         nvidia/cu13/lib on LD_LIBRARY_PATH; for a driver of CUDA 12: nvidia-cuda-nvrtc-cu12, nvidia/cuda_nvrtc/lib"
    )]
    Nvrtc,
    /// libcublasLt is absent.
    #[error(
        "libcublasLt.so.13 or .so.12 was not found: pip install 'nvidia-cublas==13.0.*' and put its folder \
         nvidia/cu13/lib on LD_LIBRARY_PATH; for a driver of CUDA 12: nvidia-cublas-cu12, nvidia/cublas/lib"
    )]
    CublasLt,
    /// A library is there, but too old.
    #[error(
        "{library} is of CUDA {found}, {OLDEST_CUDA} or later is needed: LD_LIBRARY_PATH says which is found first"
    )]
    OldLibrary {
        /// The library.
        library: &'static str,
        /// Its version.
        found: LibraryVersion,
    },
    /// A library is of a newer major version than the driver.
    #[error(
        "{library} is of CUDA {found}, the driver serves {driver}: install a newer driver, or a {library} of CUDA {}, \
         and take the folder of the newer one off LD_LIBRARY_PATH",
        driver.major
    )]
    NewLibrary {
        /// The library.
        library: &'static str,
        /// Its version.
        found: LibraryVersion,
        /// The driver's CUDA version.
        driver: LibraryVersion,
    },
    /// The device is newer than the compiler.
    #[error(
        "NVRTC {nvrtc} makes no machine code for {architecture}: install a newer one (12.8 is the first for sm_100 \
         and sm_120)"
    )]
    NewDevice {
        /// The device's.
        architecture: GpuArchitecture,
        /// The compiler's version.
        nvrtc: LibraryVersion,
    },
}

/// A device shown by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// `N` of `cuda:N`.
    pub ordinal: usize,
    /// "NVIDIA H100 80GB HBM3".
    pub name: String,
    /// Compute capability.
    pub architecture: GpuArchitecture,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of it that are free, if they were requested.
    pub free: Option<u64>,
    /// As NVML and `nvidia-smi -L` write it: `GPU-...`.
    pub uuid: String,
    /// The reason that prevents its use.
    pub unfit: Option<MissingRequirement>,
}

/// The facts about CUDA shown by `hopeval doctor`.
#[derive(Debug)]
pub struct CudaFacts {
    /// The CUDA version of the driver, if libcuda is there.
    pub driver: Result<LibraryVersion, MissingRequirement>,
    /// The driver's devices.
    pub devices: Result<Vec<DeviceFacts>, MissingRequirement>,
    /// NVRTC, the compiler of kernels.
    pub nvrtc: Result<LibraryVersion, MissingRequirement>,
    /// cuBLASLt, the products of matrices.
    pub cublaslt: Result<LibraryVersion, MissingRequirement>,
    /// NVML, which counts energy: the driver's release, "580.159.04". Nothing else needs it.
    pub nvml: Result<String, EnergyError>,
}

impl CudaFacts {
    /// Collects all facts. A context on each device reports its free memory, which takes a moment and some memory.
    pub fn collect_facts() -> Self {
        let driver = driver_version();
        let devices = driver.clone().and_then(|_| {
            let ordinals = 0..device_count()?;
            ordinals.map(|ordinal| describe_device(ordinal).map(DeviceFacts::with_free_memory)).collect()
        });
        let served = |library, found: Result<LibraryVersion, MissingRequirement>| match &driver {
            Ok(driver) => found.and_then(|found| driver.check_served(library, found)),
            Err(_) => found,
        };
        let nvrtc = served(NVRTC_NAME, nvrtc_version());
        let cublaslt = served(CUBLASLT_NAME, cublaslt_version());
        Self { driver, devices, nvrtc, cublaslt, nvml: energy::driver_release() }
    }

    /// True if some device could be opened.
    pub fn is_usable(&self) -> bool {
        let fit = |devices: &Vec<DeviceFacts>| devices.iter().any(|device| device.unfit.is_none());
        self.devices.as_ref().is_ok_and(fit) && self.nvrtc.is_ok() && self.cublaslt.is_ok()
    }
}

/// The CUDA version of the driver.
///
/// # Errors
/// [`MissingRequirement::Driver`], [`MissingRequirement::OldDriver`].
pub fn driver_version() -> Result<LibraryVersion, MissingRequirement> {
    if !DRIVER.is_there() {
        return Err(MissingRequirement::Driver);
    }
    let mut number: c_int = 0;
    // SAFETY: the library is there, and the call writes one int. It may come before cuInit.
    unsafe { sys::cuDriverGetVersion(&raw mut number) }.result().map_err(broken_call("cuDriverGetVersion"))?;
    let found = LibraryVersion::new(number / 1000, number % 1000 / 10);
    if found < OLDEST_CUDA { Err(MissingRequirement::OldDriver { found }) } else { Ok(found) }
}

/// The number of devices shown by the driver: at least 1.
///
/// # Errors
/// As [`driver_version`]; [`MissingRequirement::Device`]; [`MissingRequirement::Broken`] if it cannot start.
pub fn device_count() -> Result<usize, MissingRequirement> {
    driver_version()?;
    let none = |call| {
        move |error: DriverError| match error.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE => MissingRequirement::Device,
            _ => broken_call(call)(error),
        }
    };
    driver::init().map_err(none("cuInit"))?;
    let count = driver::device::get_count().map_err(none("cuDeviceGetCount"))?;
    usize::try_from(count).ok().filter(|&count| count > 0).ok_or(MissingRequirement::Device)
}

/// The facts about a device, without its free memory.
///
/// # Errors
/// As [`device_count`]; [`MissingRequirement::Ordinal`].
pub fn describe_device(ordinal: usize) -> Result<DeviceFacts, MissingRequirement> {
    let devices = device_count()?;
    let number =
        c_int::try_from(ordinal).ok().filter(|_| ordinal < devices).ok_or(MissingRequirement::Ordinal { devices })?;
    let device = driver::device::get(number).map_err(broken_call("cuDeviceGet"))?;
    let attribute = |of| {
        // SAFETY: the device was given by cuDeviceGet.
        unsafe { driver::device::get_attribute(device, of) }.map_err(broken_call("cuDeviceGetAttribute"))
    };
    let name = driver::device::get_name(device).map_err(broken_call("cuDeviceGetName"))?;
    let architecture = GpuArchitecture {
        major: attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    };
    let multiprocessors = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let pools = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
    // SAFETY: as above.
    let memory = unsafe { driver::device::total_mem(device) }.map_err(broken_call("cuDeviceTotalMem"))?;
    let uuid = driver::device::get_uuid(device).map_err(broken_call("cuDeviceGetUuid"))?;
    let unfit = match () {
        () if architecture < OLDEST_ARCHITECTURE => {
            Some(MissingRequirement::OldDevice { name: name.clone(), found: architecture })
        }
        () if !pools => Some(MissingRequirement::Pools { name: name.clone() }),
        () => None,
    };
    Ok(DeviceFacts {
        ordinal,
        name,
        architecture,
        multiprocessors: multiprocessors.unsigned_abs(),
        memory: memory as u64,
        free: None,
        uuid: uuid_text(uuid.bytes),
        unfit,
    })
}

/// NVRTC's version.
///
/// # Errors
/// [`MissingRequirement::Nvrtc`], [`MissingRequirement::OldLibrary`].
pub fn nvrtc_version() -> Result<LibraryVersion, MissingRequirement> {
    if !NVRTC.is_there() {
        return Err(MissingRequirement::Nvrtc);
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there, and the call writes two ints.
    let status = unsafe { nvrtc::nvrtcVersion(&raw mut major, &raw mut minor) };
    status
        .result()
        .map_err(|error| MissingRequirement::Broken { call: "nvrtcVersion", said: format!("{:?}", error.0) })?;
    check_version(NVRTC_NAME, LibraryVersion::new(major, minor))
}

/// cuBLASLt's version.
///
/// # Errors
/// [`MissingRequirement::CublasLt`], [`MissingRequirement::OldLibrary`].
pub fn cublaslt_version() -> Result<LibraryVersion, MissingRequirement> {
    if !CUBLASLT.is_there() {
        return Err(MissingRequirement::CublasLt);
    }
    let property = |of| {
        let mut value: c_int = 0;
        // SAFETY: the library is there, and the call writes one int.
        let status = unsafe { products::cublasLtGetProperty(of, &raw mut value) };
        let broken = |said| MissingRequirement::Broken { call: "cublasLtGetProperty", said };
        status.result().map(|()| value).map_err(|error| broken(format!("{:?}", error.0)))
    };
    let found = LibraryVersion {
        major: property(products::libraryPropertyType_t::MAJOR_VERSION)?,
        minor: property(products::libraryPropertyType_t::MINOR_VERSION)?,
        patch: Some(property(products::libraryPropertyType_t::PATCH_LEVEL)?),
    };
    check_version(CUBLASLT_NAME, found)
}

/// Refuses an older version.
fn check_version(library: &'static str, found: LibraryVersion) -> Result<LibraryVersion, MissingRequirement> {
    if found < OLDEST_CUDA { Err(MissingRequirement::OldLibrary { library, found }) } else { Ok(found) }
}

impl DeviceFacts {
    /// A device without a context is unfit for use, even if only memory is short.
    fn with_free_memory(self) -> Self {
        match free_memory(self.ordinal) {
            Ok(free) => Self { free: Some(free), ..self },
            Err(missing) => Self { unfit: self.unfit.or(Some(missing)), ..self },
        }
    }
}

/// Read through the device's primary context, which is made for this call if nothing else holds it.
fn free_memory(ordinal: usize) -> Result<u64, MissingRequirement> {
    let device = driver::device::get(ordinal as c_int).map_err(broken_call("cuDeviceGet"))?;
    // SAFETY: the device was given by cuDeviceGet; the context is released below.
    let context = unsafe { driver::primary_ctx::retain(device) }.map_err(broken_call("cuDevicePrimaryCtxRetain"))?;
    // SAFETY: the context was just retained.
    let free = unsafe { driver::ctx::set_current(context) }.and_then(|()| driver::mem_get_info());
    // SAFETY: no call of this thread needs the context any more, and it was retained once above.
    let released =
        unsafe { driver::ctx::set_current(std::ptr::null_mut()).and_then(|()| driver::primary_ctx::release(device)) };
    released.map_err(broken_call("cuDevicePrimaryCtxRelease"))?;
    free.map(|(free, _)| free as u64).map_err(broken_call("cuMemGetInfo"))
}

/// A call's failure before there is a device.
pub(crate) fn broken_call(call: &'static str) -> impl Fn(DriverError) -> MissingRequirement {
    move |error| MissingRequirement::Broken { call, said: error_text(error) }
}

/// The driver's name of an error, and its description.
pub(crate) fn error_text(error: DriverError) -> String {
    let text = error.error_string().map_or("no description".into(), CStr::to_string_lossy);
    format!("{:?} ({text})", error.0)
}

/// `GPU-` and the bytes in groups of 4, 2, 2, 2 and 6.
fn uuid_text(bytes: [c_char; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (i, byte) in bytes.into_iter().enumerate() {
        let dash = if matches!(i, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
        text += &format!("{dash}{:02x}", byte as u8);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvml_writes_it() {
        let bytes = std::array::from_fn(|i| (i * 17) as u8 as c_char);
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn versions_and_architectures_are_ordered_and_formatted() {
        assert!(
            LibraryVersion::new(12, 3) < OLDEST_CUDA && OLDEST_CUDA < LibraryVersion { patch: Some(2), ..OLDEST_CUDA }
        );
        assert_eq!(LibraryVersion { major: 13, minor: 0, patch: Some(2) }.to_string(), "13.0.2");
        assert!(GpuArchitecture::new(7, 5) < OLDEST_ARCHITECTURE);
        assert_eq!(GpuArchitecture::new(10, 0).to_string(), "sm_100");
    }

    #[test]
    fn versions_from_12_4_on_are_served_and_libraries_up_to_the_drivers_major() {
        let version = LibraryVersion::new;
        let three = LibraryVersion { patch: Some(4), ..version(12, 3) };
        let old = check_version(CUBLASLT_NAME, three).unwrap_err().to_string();
        assert!(old.starts_with("libcublasLt is of CUDA 12.3.4, 12.4 or later is needed: "), "{old}");
        for served in [version(12, 4), version(12, 9), version(13, 1)] {
            assert_eq!(check_version(NVRTC_NAME, served), Ok(served));
        }
        for (driver, library) in [((12, 4), (12, 8)), ((13, 0), (12, 4)), ((13, 0), (13, 1))] {
            let library = version(library.0, library.1);
            assert_eq!(version(driver.0, driver.1).check_served(NVRTC_NAME, library), Ok(library));
        }
        let new = version(12, 4).check_served(NVRTC_NAME, version(13, 0)).unwrap_err().to_string();
        assert!(new.starts_with("libnvrtc is of CUDA 13.0, the driver serves 12.4: "), "{new}");
        assert!(new.contains("a libnvrtc of CUDA 12, "), "{new}");
    }

    #[test]
    fn what_is_missing_says_what_to_do() {
        let old = MissingRequirement::OldDevice { name: "Tesla T4".to_owned(), found: GpuArchitecture::new(7, 5) };
        assert!(old.to_string().starts_with("Tesla T4 has compute capability 7.5, 8.0 or later is needed (Ampere): "));
        let pools = MissingRequirement::Pools { name: "GRID".to_owned() };
        assert!([old, pools].iter().all(|missing| missing.to_string().contains("CUDA_VISIBLE_DEVICES")));
        assert!(MissingRequirement::Nvrtc.to_string().contains("pip install"), "{}", MissingRequirement::Nvrtc);
        assert!(MissingRequirement::Ordinal { devices: 2 }.to_string().contains("CUDA_VISIBLE_DEVICES"));
    }
}
