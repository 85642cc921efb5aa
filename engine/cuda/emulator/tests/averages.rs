//! Averages stay in f32 on a bf16 device, and are rounded where an operation takes them: as a sentence encoder's are by
//! the product behind its pooling.

use half::bf16;
use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions};
use hopeval_device::conformance::Arithmetic;
use hopeval_device::{Device, DeviceError, Epilogue, HostTensor, Reference, WeightLayout};

const COLUMNS: usize = 200;
const OUTPUTS: usize = 24;
/// The third block of 256 numbers is not full.
const CU_SEQLENS: [u32; 4] = [0, 5, 6, 13];

fn numbers(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| bf16::from_f32((i as f32 * step).sin()).to_f32()).collect()
}

/// The averages of three sequences, picked in another order, and their product with a matrix.
fn product_of_averages<D: Device>(device: &D) -> Result<[Vec<f32>; 2], DeviceError> {
    let rows = *CU_SEQLENS.last().expect("an end") as usize;
    let x = device.upload(rows, COLUMNS, &numbers(rows * COLUMNS, 0.7))?;
    let weight = HostTensor::from_f32("weight", &[OUTPUTS, COLUMNS], &numbers(OUTPUTS * COLUMNS, 0.3));
    let weight = device.load_matrix(&[weight], WeightLayout::OutIn)?;
    let picked = device.gather(&device.average(&x, &CU_SEQLENS)?, &[2, 0, 1])?;
    let product = device.linear(&picked, &weight, Epilogue::default())?;
    Ok([device.read_tensor(&picked)?, device.read_tensor(&product)?])
}

#[test]
fn averages_are_rounded_as_they_go_into_a_product() {
    let emulator = Emulator::new(EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let [averages, product] = product_of_averages(&Cuda::new(emulator, Arithmetic::Bf16)).unwrap();
    let [exact_averages, exact_product] = product_of_averages(&Reference).unwrap();
    assert_eq!((averages.len(), product.len()), (3 * COLUMNS, 3 * OUTPUTS));
    assert!(averages.iter().chain(&product).all(|x| x.is_finite()), "{product:?}");
    let furthest = |found: &[f32], exact: &[f32]| {
        found.iter().zip(exact).map(|(found, exact)| (found - exact).abs()).fold(0.0, f32::max)
    };
    assert!(furthest(&averages, &exact_averages) < 1e-6, "they are not rounded yet");
    // 200 numbers of at most 1, each off by at most 1/512, and the result, which is off by as much of itself.
    let bound = 0.05 + exact_product.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 256.0;
    let off = furthest(&product, &exact_product);
    assert!(off > 0.0 && off < bound, "{off}, at most {bound}");
    assert!(exact_product.iter().any(|x| x.abs() > 4.0 * bound), "large enough to tell");
}
