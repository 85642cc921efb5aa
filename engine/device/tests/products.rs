//! The CPU's products: right by the reference, and the same to the bit in any batch.

use hopeval_device::cpu::{CpuOptions, InstructionSet};
use hopeval_device::{Activation, Cpu, Device, Dtype, Epilogue, HostTensor, Reference, WeightLayout};

/// Numbers in -1..1 from a seed.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Weights of a type: the stored numbers are rounded.
fn stored(name: &str, shape: [usize; 2], dtype: Dtype, values: &[f32]) -> HostTensor {
    let bytes = match dtype {
        Dtype::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(),
        Dtype::F16 => values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
        Dtype::Bf16 => values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect(),
    };
    HostTensor { name: name.into(), dtype, shape: shape.to_vec(), bytes: bytes.into() }
}

/// Two stacked parts.
fn parts(layout: WeightLayout, dtype: Dtype, outputs: [usize; 2], inputs: usize) -> Vec<HostTensor> {
    let shape = |out| if layout == WeightLayout::OutIn { [out, inputs] } else { [inputs, out] };
    let part = |i: usize, out: usize| stored("w", shape(out), dtype, &numbers(i as u64 + 7, out * inputs));
    outputs.into_iter().enumerate().map(|(i, out)| part(i, out)).collect()
}

/// A processor with every way to keep weights: packed, and converted in each product.
fn devices(threads: usize) -> Vec<Cpu> {
    let with = |isa, packed| {
        Cpu::with_options(CpuOptions {
            threads: Some(threads),
            isa: Some(isa),
            packed: Some(packed),
            pack_half: packed > 0,
            ..CpuOptions::default()
        })
        .expect("a CPU")
    };
    InstructionSet::available().into_iter().flat_map(|isa| [with(isa, 1 << 30), with(isa, 0)]).collect()
}

fn linear(cpu: &Cpu, rows: usize, x: &[f32], weight: &<Cpu as Device>::Matrix) -> Vec<f32> {
    let x = cpu.upload(rows, x.len() / rows, x).expect("memory");
    cpu.read_tensor(&cpu.linear(&x, weight, Epilogue::default()).expect("memory")).expect("a device")
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], scale: f32) {
    assert_eq!(found.len(), expected.len());
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= 2e-6 * scale, "differs by {worst}");
}

#[test]
fn products_are_the_references_in_every_shape_type_and_layout() {
    let mut shapes = (1..=40).map(|rows| (rows, [5, 44], 97)).collect::<Vec<_>>();
    shapes.extend([(1, [1, 0], 1), (3, [32, 1], 385), (17, [16, 15], 768), (70, [33, 70], 1000), (150, [64, 3], 31)]);
    for cpu in devices(2) {
        for &(rows, outputs, inputs) in &shapes {
            let x = numbers(3, rows * inputs);
            for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
                for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
                    let parts = parts(layout, dtype, outputs, inputs);
                    let found = linear(&cpu, rows, &x, &cpu.load_matrix(&parts, layout).unwrap());
                    let there = Reference.upload(rows, inputs, &x).unwrap();
                    let weight = Reference.load_matrix(&parts, layout).unwrap();
                    let expected = Reference.linear(&there, &weight, Epilogue::default()).unwrap();
                    close(&found, &expected.values, (inputs as f32).sqrt());
                }
            }
        }
    }
}

#[test]
fn epilogues_are_the_references() {
    let (rows, outputs, inputs) = (9, 53, 40);
    let x = numbers(1, rows * inputs);
    let (bias, residual) = (numbers(2, outputs), numbers(3, rows * outputs));
    let weight = HostTensor::from_f32("w", &[outputs, inputs], &numbers(4, outputs * inputs));
    let bias = HostTensor::from_f32("b", &[outputs], &bias);
    let activations = [
        Activation::Identity,
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Tanh,
    ];
    for cpu in devices(1) {
        for activation in activations {
            for (biased, added, scale) in
                [(true, true, 0.25), (true, false, 1.0), (false, true, 1.0), (false, false, 3.0)]
            {
                fn run<D: Device>(
                    device: &D,
                    (rows, x): (usize, &[f32]),
                    weight: &HostTensor,
                    bias: Option<&HostTensor>,
                    residual: Option<&[f32]>,
                    (scale, activation): (f32, Activation),
                ) -> Vec<f32> {
                    let x = device.upload(rows, x.len() / rows, x).unwrap();
                    let weight = device.load_matrix(std::slice::from_ref(weight), WeightLayout::OutIn).unwrap();
                    let bias = bias.map(|b| device.load_vector(std::slice::from_ref(b)).unwrap());
                    let residual = residual.map(|r| device.upload(rows, r.len() / rows, r).unwrap());
                    let epilogue = Epilogue { scale, bias: bias.as_ref(), activation, residual: residual.as_ref() };
                    device.read_tensor(&device.linear(&x, &weight, epilogue).unwrap()).unwrap()
                }
                let (bias, residual) = (biased.then_some(&bias), added.then_some(&residual[..]));
                let found = run(&cpu, (rows, &x), &weight, bias, residual, (scale, activation));
                let expected = run(&Reference, (rows, &x), &weight, bias, residual, (scale, activation));
                close(&found, &expected, 20.0);
            }
        }
    }
}

#[test]
fn rows_are_batch_invariant_on_any_threads_and_panels() {
    for (outputs, inputs) in [([40, 77], 1200), ([700, 401], 130)] {
        let most = 300;
        let x = numbers(5, most * inputs);
        for isa in InstructionSet::available() {
            let mut expected: Option<Vec<u32>> = None;
            for threads in [1, 3] {
                for cpu in devices(threads).into_iter().filter(|cpu| cpu.isa() == isa) {
                    let weight = cpu
                        .load_matrix(&parts(WeightLayout::OutIn, Dtype::Bf16, outputs, inputs), WeightLayout::OutIn)
                        .unwrap();
                    for rows in [1, 2, 3, 7, 13, 14, 15, 29, 63, 65, 131, 299, most] {
                        // The row under test stands last.
                        let x = &x[(most - rows) * inputs..];
                        let out = linear(&cpu, rows, x, &weight);
                        let last = out[out.len() - out.len() / rows..].iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                        assert_eq!(*expected.get_or_insert_with(|| last.clone()), last, "{isa:?} {threads} {rows}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_epilogue_changes_no_bit_with_the_rows() {
    let (outputs, inputs, most) = (61, 50, 31);
    let (x, residual) = (numbers(6, most * inputs), numbers(8, most * outputs));
    for cpu in devices(2) {
        let weight =
            cpu.load_matrix(&parts(WeightLayout::InOut, Dtype::F32, [40, 21], inputs), WeightLayout::InOut).unwrap();
        let run = |rows: usize| {
            let x = cpu.upload(rows, inputs, &x[..rows * inputs]).unwrap();
            let residual = cpu.upload(rows, outputs, &residual[..rows * outputs]).unwrap();
            let epilogue = Epilogue::default().activation(Activation::Gelu).residual(&residual);
            cpu.read_tensor(&cpu.linear(&x, &weight, epilogue).unwrap()).unwrap()
        };
        let all = run(most);
        for rows in 1..most {
            assert_eq!(run(rows), all[..rows * outputs], "{rows} rows");
        }
    }
}

#[test]
fn memory_that_runs_out_is_an_error_and_the_device_stays_usable() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let weight =
        cpu.load_matrix(&[HostTensor::from_f32("w", &[64, 64], &[1.0; 64 * 64])], WeightLayout::OutIn).unwrap();
    let x = cpu.upload(100, 64, &[1.0; 6400]).unwrap();
    cpu.limit_memory(cpu.memory_in_use() + 1000);
    let error = cpu.linear(&x, &weight, Epilogue::default()).unwrap_err();
    assert!(matches!(error, hopeval_device::DeviceError::OutOfMemory { .. }), "{error}");
    cpu.limit_memory(u64::MAX);
    let out = cpu.linear(&x, &weight, Epilogue::default()).unwrap();
    assert!(cpu.read_tensor(&out).unwrap().iter().all(|v| *v == 64.0));
}

#[test]
fn shapes_without_numbers_are_taken() {
    let cpu = Cpu::new(Some(2)).unwrap();
    let weight = cpu.load_matrix(&[HostTensor::from_f32("w", &[3, 0], &[])], WeightLayout::OutIn).unwrap();
    let bias = cpu.load_vector(&[HostTensor::from_f32("b", &[3], &[1.0, 2.0, 3.0])]).unwrap();
    let x = cpu.upload(2, 0, &[]).unwrap();
    let out = cpu.linear(&x, &weight, Epilogue::bias(Some(&bias))).unwrap();
    assert_eq!(cpu.read_tensor(&out).unwrap(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);

    let weight = cpu.load_matrix(&[HostTensor::from_f32("w", &[3, 2], &[1.0; 6])], WeightLayout::OutIn).unwrap();
    let none = cpu.upload(0, 2, &[]).unwrap();
    let out = cpu.linear(&none, &weight, Epilogue::default()).unwrap();
    assert_eq!(cpu.shape(&out), (0, 3));
}

#[test]
fn log_probabilities_are_the_references_in_any_batch() {
    let (entries, inputs, most) = (1037, 70, 40);
    let temperatures = [1.0, 0.7, 3.0];
    let x = numbers(9, most * inputs).iter().map(|v| v * 4.0).collect::<Vec<_>>();
    let targets = (0..most as u32).map(|i| i * 101 % entries as u32).collect::<Vec<_>>();
    let bias = HostTensor::from_f32("b", &[entries], &numbers(10, entries));
    let parts = parts(WeightLayout::OutIn, Dtype::Bf16, [1000, 37], inputs);
    let expected = {
        let weight = Reference.load_matrix(&parts, WeightLayout::OutIn).unwrap();
        let x = Reference.upload(most, inputs, &x).unwrap();
        let bias = Reference.load_vector(std::slice::from_ref(&bias)).unwrap();
        Reference.log_probs(&x, &weight, Some(&bias), 0.5, &targets, &temperatures).unwrap()
    };
    for isa in InstructionSet::available() {
        let mut seen = None;
        for threads in [1, 3] {
            for cpu in devices(threads).into_iter().filter(|cpu| cpu.isa() == isa) {
                let weight = cpu.load_matrix(&parts, WeightLayout::OutIn).unwrap();
                let bias = cpu.load_vector(std::slice::from_ref(&bias)).unwrap();
                for rows in [most, 1, 7, 15] {
                    let from = most - rows;
                    let x = cpu.upload(rows, inputs, &x[from * inputs..]).unwrap();
                    let found = cpu.log_probs(&x, &weight, Some(&bias), 0.5, &targets[from..], &temperatures).unwrap();
                    close(&found.target_logits, &expected.target_logits[from..], 10.0);
                    close(&found.log_sum_exps, &expected.log_sum_exps[from * 3..], 10.0);
                    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    let last = (bits(&found.target_logits[rows - 1..]), bits(&found.log_sum_exps[rows * 3 - 3..]));
                    assert_eq!(*seen.get_or_insert_with(|| last.clone()), last, "{isa:?} {threads} {rows}");
                }
            }
        }
    }
}

#[test]
fn impossible_words_have_no_probability_unless_one_is_nan() {
    let (entries, inputs) = (1037, 6);
    let weight = HostTensor::from_f32("w", &[entries, inputs], &numbers(11, entries * inputs));
    let x = numbers(12, 2 * inputs);
    for cpu in devices(1) {
        let weight = cpu.load_matrix(std::slice::from_ref(&weight), WeightLayout::OutIn).unwrap();
        let x = cpu.upload(2, inputs, &x).unwrap();
        let sums = |biases: &[f32]| {
            let bias = cpu.load_vector(&[HostTensor::from_f32("b", &[entries], biases)]).unwrap();
            cpu.log_probs(&x, &weight, Some(&bias), 1.0, &[3, 1036], &[1.0, 0.7]).unwrap().log_sum_exps
        };
        let mut biases = vec![f32::NEG_INFINITY; entries];
        assert_eq!(sums(&biases), [f32::NEG_INFINITY; 4]);
        for unknown in [0, 511, 512, 1030, 1036] {
            biases[unknown] = f32::NAN;
            assert!(sums(&biases).iter().all(|sum| sum.is_nan()), "{unknown}");
            biases[unknown] = f32::NEG_INFINITY;
        }
    }
}
