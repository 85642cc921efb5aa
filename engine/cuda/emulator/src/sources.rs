//! The texts to build: the kernels' files and the emulator's own, so that a test may change a copy.

use hopeval_cuda::kernels::{FAMILIES, HEADERS};
use std::path::{Path, PathBuf};

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

/// The folder in `EMULATED_KERNELS`: changed kernels, for all tests of a process.
pub(crate) fn changed_folder() -> Option<PathBuf> {
    std::env::var_os("EMULATED_KERNELS").map(PathBuf::from)
}

impl KernelSources {
    /// The device's own kernels. Where `EMULATED_KERNELS` names a folder, their texts are those of its files, which
    /// have the names of the kernels' files.
    ///
    /// # Panics
    /// If that folder lacks a file.
    pub fn device_kernels() -> Self {
        let mut sources = Self::embedded_kernels();
        if let Some(folder) = changed_folder() {
            sources.read_texts(&folder);
        }
        sources
    }

    fn read_texts(&mut self, folder: &Path) {
        let families = self.families.iter_mut().map(|family| (format!("{}.cu", family.name), &mut family.text));
        for (name, text) in self.headers.iter_mut().map(|(name, text)| (name.clone(), text)).chain(families) {
            let path = folder.join(name);
            *text = std::fs::read_to_string(&path)
                .unwrap_or_else(|e| panic!("{}: {e}; EMULATED_KERNELS is to name a folder of kernels", path.display()));
        }
    }

    fn embedded_kernels() -> Self {
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
    fn texts_come_from_a_folder_with_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = KernelSources::embedded_kernels();
        let names = sources.families.iter().map(|family| format!("{}.cu", family.name));
        for name in names.chain(sources.headers.iter().map(|(name, _)| name.clone())) {
            std::fs::write(folder.path().join(&name), format!("of {name}")).unwrap();
        }
        sources.read_texts(folder.path());
        assert!(sources.families.iter().all(|family| family.text == format!("of {}.cu", family.name)));
        assert!(sources.headers.iter().all(|(name, text)| *text == format!("of {name}")));
        std::fs::remove_file(folder.path().join("norm.cu")).unwrap();
        let missing = std::panic::catch_unwind(move || sources.read_texts(folder.path())).unwrap_err();
        assert!(missing.downcast_ref::<String>().unwrap().contains("norm.cu: "), "{missing:?}");
    }

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
