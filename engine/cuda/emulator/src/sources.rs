//! The texts to build: the kernels' files and the emulator's own, so that a test may change a copy.

use hopeval_cuda::kernels::{FAMILIES, HEADERS};

/// A file of kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// Its name without `.cu`.
    pub name: String,
    /// CUDA C++.
    pub text: String,
    /// The kernels to export.
    pub kernels: Vec<String>,
}

/// All files of kernels, and the headers that they include.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSources {
    /// By include name.
    pub headers: Vec<(String, String)>,
    /// One for each family.
    pub families: Vec<KernelSource>,
}

/// The header included by `prelude.cuh`.
pub(crate) const EMULATOR_H: &str = include_str!("../cpp/emulator.h");
/// The header included by `emulator.h`.
pub(crate) const EMULATED_H: &str = include_str!("../cpp/emulated.h");
/// The code behind the launches.
pub(crate) const EMULATOR_CPP: &str = include_str!("../cpp/emulator.cpp");

impl KernelSources {
    /// The device's own kernels.
    pub fn device_kernels() -> Self {
        let family = |family: &hopeval_cuda::kernels::KernelFamily| KernelSource {
            name: family.name.into(),
            text: family.text.into(),
            kernels: family.kernels.iter().map(|name| (*name).into()).collect(),
        };
        Self {
            headers: HEADERS.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
            families: FAMILIES.iter().map(family).collect(),
        }
    }
}

impl KernelSource {
    /// The C++ file that includes the kernels and exports them.
    ///
    /// The unnamed namespace keeps a family's functions private, as its own module does on a GPU.
    pub(crate) fn unit_text(&self) -> String {
        let exports = self.kernels.iter().map(|kernel| match self.most_threads(kernel) {
            Some(threads) => format!("EMULATOR_EXPORT_OF({kernel}, ({threads}))\n"),
            None => format!("EMULATOR_EXPORT({kernel})\n"),
        });
        let names = self.kernels.iter().map(|kernel| format!("{kernel} ")).collect::<String>();
        format!(
            "#include \"emulator.h\"\nnamespace {{\n#include \"{0}.cu\"\n}}\n\
             EMULATOR_FAMILY({0}, {1:#x}u, \" {names}\")\n{2}",
            self.name,
            fnv_digest(&self.text),
            exports.collect::<String>()
        )
    }

    /// The expression in `KERNEL(..) kernel(`; `None` if a macro writes it.
    fn most_threads(&self, kernel: &str) -> Option<&str> {
        self.text.split("KERNEL(").skip(1).find_map(|part| {
            let (threads, rest) = part.split_once(')')?;
            let rest = rest.trim_start().strip_prefix(kernel)?;
            rest.trim_start().starts_with('(').then_some(threads)
        })
    }
}

/// FNV-1a, as in the simulated libraries: shows whether NVRTC was given the sources of the built kernels.
fn fnv_digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_exports_kernels_with_the_threads_that_they_say() {
        let source = KernelSource {
            name: "family".into(),
            text: "KERNEL(THREADS) one(u32 x) {}\nKERNEL(64)\nonce(float* x) {}\n".into(),
            kernels: ["one", "once", "two"].map(String::from).into(),
        };
        let expected = "EMULATOR_EXPORT_OF(one, (THREADS))\nEMULATOR_EXPORT_OF(once, (64))\nEMULATOR_EXPORT(two)\n";
        assert!(source.unit_text().ends_with(expected), "{}", source.unit_text());
        let family = format!("EMULATOR_FAMILY(family, {:#x}u, \" one once two \")\n", fnv_digest(&source.text));
        assert!(source.unit_text().contains(&family), "{}", source.unit_text());
        assert_eq!(fnv_digest("a"), 0xaf63_dc4c_8601_ec8c, "as published");
    }
}
