//! The kernels' sources, embedded, and their names.
//!
//! A family is one `.cu` file of `kernels/`: CUDA C++ without any header of a toolkit. `prelude.cuh` holds the shared
//! basics, `mma.cuh` the only inline PTX, `vectors.cuh` loads and stores of sixteen bytes, `attention.cuh` the
//! arguments of both families of attention. Every kernel is `extern "C"` and begins with `KERNEL(threads)`.

use hopeval_device::Activation;

/// Threads of a block in kernels with one block for each row, or four short groups of a norm.
pub(crate) const ROW: u32 = 128;

/// One file of kernels.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelFamily {
    /// The file's name without `.cu`.
    pub name: &'static str,
    /// CUDA C++.
    pub text: &'static str,
    /// Its kernels.
    pub kernels: &'static [&'static str],
}

/// A kernel: its family, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The file that defines it.
    pub family: &'static KernelFamily,
    /// Its `extern "C"` name.
    pub name: &'static str,
}

/// Headers by include name.
pub const HEADERS: [(&str, &str); 4] = [
    ("prelude.cuh", include_str!("../kernels/prelude.cuh")),
    ("mma.cuh", include_str!("../kernels/mma.cuh")),
    ("vectors.cuh", include_str!("../kernels/vectors.cuh")),
    ("attention.cuh", include_str!("../kernels/attention.cuh")),
];

/// All files of kernels.
pub static FAMILIES: [KernelFamily; 10] = [
    KernelFamily {
        name: "rows",
        text: include_str!("../kernels/rows.cu"),
        kernels: &[
            "embed_f32",
            "embed_bf16",
            "gather_f32",
            "gather_bf16",
            "scatter_f32",
            "scatter_bf16",
            "find_differences",
            "round_to_bf16",
        ],
    },
    KernelFamily {
        name: "norm",
        text: include_str!("../kernels/norm.cu"),
        kernels: &["norm_short_f32", "norm_short_bf16", "norm_f32", "norm_bf16"],
    },
    KernelFamily {
        name: "activation",
        text: include_str!("../kernels/activation.cu"),
        kernels: &["gate_f32", "gate_bf16", "finish_f32", "finish_bf16"],
    },
    KernelFamily {
        name: "rotary",
        text: include_str!("../kernels/rotary.cu"),
        kernels: &["rotate_f32", "rotate_bf16"],
    },
    KernelFamily { name: "pool", text: include_str!("../kernels/pool.cu"), kernels: &["average_f32", "average_bf16"] },
    KernelFamily {
        name: "product",
        text: include_str!("../kernels/product.cu"),
        kernels: &["product_f32", "product_bf16", "product_bf16_f32"],
    },
    KernelFamily {
        name: "log_probs",
        text: include_str!("../kernels/log_probs.cu"),
        kernels: &["log_probs_tile", "highest_tile"],
    },
    KernelFamily { name: "draw", text: include_str!("../kernels/draw.cu"), kernels: &["draw_token"] },
    KernelFamily {
        name: "attention",
        text: include_str!("../kernels/attention.cu"),
        kernels: &[
            "attention_32",
            "attention_64",
            "attention_96",
            "attention_128",
            "attention_relative_32",
            "attention_relative_64",
            "attention_relative_96",
            "attention_relative_128",
            "attention_disentangled_32",
            "attention_disentangled_64",
            "attention_short_32",
            "attention_short_64",
            "attention_short_96",
            "attention_short_128",
            "attention_short_relative_32",
            "attention_short_relative_64",
            "attention_short_relative_96",
            "attention_short_relative_128",
            "attention_grouped_32",
            "attention_grouped_64",
            "attention_grouped_96",
            "attention_grouped_128",
        ],
    },
    KernelFamily {
        name: "attention_plain",
        text: include_str!("../kernels/attention_plain.cu"),
        kernels: &["attention_plain_f32", "attention_plain_bf16"],
    },
];

impl KernelFamily {
    /// The most threads of a block of a kernel, as `KERNEL(threads)` before its name says; none for another kernel.
    pub fn block_threads(&self, kernel: &str) -> Option<u32> {
        let declared = self.text.split("KERNEL(").skip(1).filter_map(|rest| rest.split_once(')'));
        let mut named =
            declared.filter(|(_, rest)| rest.trim_start().strip_prefix(kernel).is_some_and(|r| r.starts_with('(')));
        named.next().and_then(|(threads, _)| threads.parse().ok())
    }
}

impl Kernel {
    /// The kernel of this name.
    ///
    /// # Panics
    /// If it does not exist: names are written in this crate alone.
    pub(crate) fn named(family: &'static str, name: &'static str) -> Self {
        let found = FAMILIES.iter().find(|f| f.name == family && f.kernels.contains(&name));
        let family = found.unwrap_or_else(|| panic!("no kernel {name} in {family}.cu; this is a bug"));
        Self { family, name }
    }
}

/// A number of rows, columns or blocks, as a kernel takes it.
pub(crate) fn kernel_size(n: usize) -> u32 {
    u32::try_from(n).expect("a size below 2^32; this is a bug")
}

/// The number of an activation in `prelude.cuh`.
pub(crate) fn activation_code(activation: Activation) -> u32 {
    match activation {
        Activation::Identity => 0,
        Activation::Relu => 1,
        Activation::Gelu => 2,
        Activation::GeluTanh => 3,
        Activation::Silu => 4,
        Activation::Tanh => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_listed_once_and_families_include_a_header() {
        for family in &FAMILIES {
            let listed = family.kernels.len();
            assert_eq!(family.text.matches("KERNEL(").count() - family.text.matches("define KERNEL(").count(), listed);
            assert!(family.kernels.iter().all(|name| family.text.contains(&format!(" {name}("))), "{}", family.name);
            assert!(
                HEADERS.iter().any(|(name, _)| family.text.contains(&format!("#include \"{name}\""))),
                "{}",
                family.name
            );
            for name in family.kernels {
                let threads = family.block_threads(name);
                assert!(matches!(threads, Some(64 | 128 | 256 | 512)), "{name}: {threads:?}");
            }
            assert_eq!(family.block_threads("absent"), None);
        }
    }
}
