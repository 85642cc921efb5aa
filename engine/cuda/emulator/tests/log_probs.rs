//! Log-probabilities of impossible words, for which the reference has no number because it divides by their sum.

use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions};
use hopeval_device::conformance::Arithmetic;
use hopeval_device::{Device, HostTensor, WeightLayout};

#[test]
fn impossible_words_have_no_probability_unless_one_is_nan() {
    // Two tiles; the columns behind the last word are padding.
    let (words, inner) = (8195, 8);
    for arithmetic in [Arithmetic::F32, Arithmetic::Bf16] {
        let device = Cuda::new(Emulator::new(EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"))).unwrap(), arithmetic);
        let weight = HostTensor::from_f32("weight", &[words, inner], &vec![0.25; words * inner]);
        let weight = device.load_matrix(&[weight], WeightLayout::OutIn).unwrap();
        let x = device.upload(2, inner, &[1.0; 16]).unwrap();
        let sums = |biases: &[f32]| {
            let bias = device.load_vector(&[HostTensor::from_f32("bias", &[words], biases)]).unwrap();
            device.log_probs(&x, &weight, Some(&bias), 1.0, &[3, 8194], &[1.0, 0.7]).unwrap().log_sum_exps
        };
        let mut biases = vec![f32::NEG_INFINITY; words];
        assert_eq!(sums(&biases), [f32::NEG_INFINITY; 4]);
        for unknown in [0, 8191, 8192, 8194] {
            biases[unknown] = f32::NAN;
            assert!(sums(&biases).iter().all(|sum| sum.is_nan()), "{unknown}");
            biases[unknown] = f32::NEG_INFINITY;
        }
    }
}
