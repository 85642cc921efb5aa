//! The lines of the report on CUDA: the driver, its devices, and the libraries for kernels and products.
//!
//! Without a device nothing is doubtful, since models run on the CPU. With a device, everything that keeps it from
//! being used is doubtful.

use super::{DoctorFact, GIB, doubtful, fine};
use hopeval_cuda::machine::{CudaFacts, DeviceFacts, MissingRequirement};

pub(super) fn cuda_facts(found: &CudaFacts) -> Vec<DoctorFact> {
    let there = found.devices.is_ok();
    let mut facts = vec![library_fact("CUDA driver", there, found.driver.as_ref().map(|v| format!("serves CUDA {v}")))];
    match &found.devices {
        Ok(devices) => facts.extend(devices.iter().map(device_fact)),
        // The driver's line reports this.
        Err(_) if found.driver.is_err() => facts.push(fine("GPU", "none", "none is needed: models run on the CPU")),
        Err(missing) => facts.push(doubtful("GPU", "none", &missing.to_string())),
    }
    facts.push(library_fact("NVRTC", there, found.nvrtc.as_ref().map(ToString::to_string)));
    facts.push(library_fact("cuBLASLt", there, found.cublaslt.as_ref().map(ToString::to_string)));
    facts.push(match &found.nvml {
        Ok(release) => fine("NVML", release.clone(), "energy is counted"),
        Err(error) if there => doubtful("NVML", "not usable", &error.to_string()),
        Err(_) => fine("NVML", "not found", "comes with the driver"),
    });
    facts
}

/// A library for devices. Its absence is doubtful if there is a device.
fn library_fact(name: &'static str, there: bool, found: Result<String, &MissingRequirement>) -> DoctorFact {
    match found {
        Ok(version) => fine(name, version, ""),
        Err(missing) if there => doubtful(name, "not usable", &missing.to_string()),
        Err(missing) => fine(name, "not found", &format!("for `device = \"cuda\"` only: {missing}")),
    }
}

fn device_fact(device: &DeviceFacts) -> DoctorFact {
    let DeviceFacts { ordinal, name, architecture, multiprocessors, memory, free, .. } = device;
    let gib = |bytes: u64| bytes as f64 / GIB;
    let free = free.map_or_else(String::new, |free| format!(", {:.1} free", gib(free)));
    let found = format!("cuda:{ordinal}: {name}, {architecture}, {multiprocessors} SMs, {:.1} GiB{free}", gib(*memory));
    match &device.unfit {
        None => fine("GPU", found, "for `device = \"cuda\"`"),
        Some(missing) => doubtful("GPU", found, &missing.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FactHealth;
    use hopeval_cuda::energy::EnergyError;
    use hopeval_cuda::machine::{GpuArchitecture, LibraryVersion};

    fn bare() -> CudaFacts {
        let unusable = CudaFacts::collect_facts().nvml.err();
        CudaFacts {
            driver: Err(MissingRequirement::Driver),
            devices: Err(MissingRequirement::Driver),
            nvrtc: Err(MissingRequirement::Nvrtc),
            cublaslt: Err(MissingRequirement::CublasLt),
            nvml: unusable.map_or_else(|| Ok("580".to_owned()), Err::<String, EnergyError>),
        }
    }

    fn h100() -> DeviceFacts {
        DeviceFacts {
            ordinal: 0,
            name: "NVIDIA H100".to_owned(),
            architecture: GpuArchitecture::new(9, 0),
            multiprocessors: 132,
            memory: 80 << 30,
            free: Some(79 << 30),
            uuid: "GPU-0".to_owned(),
            unfit: None,
        }
    }

    #[test]
    fn without_a_device_nothing_is_doubtful() {
        let facts = cuda_facts(&bare());
        assert!(facts.iter().all(|fact| fact.health == FactHealth::Fine), "{facts:?}");
        let note = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.note.clone()).unwrap();
        assert!(note("CUDA driver").contains("install NVIDIA's driver"), "{}", note("CUDA driver"));
        assert!(note("NVRTC").contains("pip install"), "{}", note("NVRTC"));
        assert!(note("cuBLASLt").contains("LD_LIBRARY_PATH"), "{}", note("cuBLASLt"));
    }

    #[test]
    fn with_a_device_what_is_missing_is_doubtful() {
        let driver = Ok(LibraryVersion::new(13, 0));
        let facts = cuda_facts(&CudaFacts { driver, devices: Ok(vec![h100()]), ..bare() });
        let health = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.health).unwrap();
        assert_eq!(
            (health("CUDA driver"), health("GPU"), health("NVRTC")),
            (FactHealth::Fine, FactHealth::Fine, FactHealth::Doubtful)
        );
        let gpu = facts.iter().find(|fact| fact.name == "GPU").unwrap();
        assert_eq!(gpu.found, "cuda:0: NVIDIA H100, sm_90, 132 SMs, 80.0 GiB, 79.0 free");
    }
}
