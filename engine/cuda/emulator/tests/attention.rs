//! Attention at the shapes of real models, against the reference: heads at multiples of 16 bytes (copied in another way
//! than the conformance suite's), sequences of several tiles, heads of all sizes with a kernel.

use half::bf16;
use hopeval_cuda::{Cuda, Tensor, WeightMatrix};
use hopeval_cuda_emulator::{Emulator, EmulatorBuffer, EmulatorOptions, ThreadOrder};
use hopeval_device::conformance::Arithmetic;
use hopeval_device::{
    Attention, AttentionBias, AttentionMask, Device, DeviceError, DisentangledBias, DistanceBuckets, HostTensor,
    Packing, Reference, TensorColumns, WeightLayout,
};

type OnDevice = Cuda<Emulator>;

/// bf16 numbers between -1.7 and 1.7.
fn numbers(seed: &mut u64, count: usize) -> Vec<f32> {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bf16::from_f32(((*seed >> 40) as f32 / (1 << 23) as f32 - 1.0) * 1.7).to_f32()
    };
    (0..count).map(|_| next()).collect()
}

/// The same numbers on the device and for the reference.
struct Both<T, P>(T, P);

type Tensors = Both<Tensor<EmulatorBuffer>, <Reference as Device>::Tensor>;
type Matrices = Both<WeightMatrix<EmulatorBuffer>, <Reference as Device>::Matrix>;

fn tensor(device: &OnDevice, seed: &mut u64, rows: usize, columns: usize) -> Result<Tensors, DeviceError> {
    let values = numbers(seed, rows * columns);
    Ok(Both(device.upload(rows, columns, &values)?, Reference.upload(rows, columns, &values)?))
}

fn matrix(device: &OnDevice, seed: &mut u64, rows: usize, columns: usize) -> Result<Matrices, DeviceError> {
    let parts = [HostTensor::from_f32("table", &[rows, columns], &numbers(seed, rows * columns))];
    Ok(Both(device.load_matrix(&parts, WeightLayout::OutIn)?, Reference.load_matrix(&parts, WeightLayout::OutIn)?))
}

#[derive(Clone, Copy, Debug)]
struct Heads {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    None,
    Relative(DistanceBuckets),
    /// True for keys of positions, and for queries of positions.
    Disentangled(DistanceBuckets, bool, bool),
}

/// Prompts of several tiles, a tree over the longest of them, and a step of generation.
fn packing() -> Packing {
    let mut packing = Packing::of_lengths([70, 130, 1, 64]);
    packing.push(20, [(70, 130), (265, 20)]);
    packing.push(3, [(70, 130), (265, 20), (285, 3)]);
    packing.push(1, [(70, 65)]);
    packing
}

/// The largest difference from the reference.
fn difference(
    device: &OnDevice,
    mask: AttentionMask,
    kind: Kind,
    heads: Heads,
    seed: &mut u64,
) -> Result<f32, DeviceError> {
    let Heads { heads, kv_heads, head_dim } = heads;
    let (packing, scale) = (packing(), (head_dim as f32).powf(-0.5));
    let (key_start, value_start) = (heads * head_dim, (heads + kv_heads) * head_dim);
    let Both(fused, plain) = tensor(device, seed, packing.rows(), value_start + kv_heads * head_dim)?;
    let at = |start| TensorColumns { tensor: &fused, start };
    let plain_at = |start| TensorColumns { tensor: &plain, start };
    let run = |bias: AttentionBias<'_, OnDevice>, plain_bias: AttentionBias<'_, Reference>| {
        let attention = Attention { heads, kv_heads, head_dim, scale, mask, bias, packing: &packing };
        let found = device.attention(at(0), at(key_start), at(value_start), &attention)?;
        let attention = Attention { heads, kv_heads, head_dim, scale, mask, bias: plain_bias, packing: &packing };
        let expected = Reference.attention(plain_at(0), plain_at(key_start), plain_at(value_start), &attention)?;
        let (found, expected) = (device.read_tensor(&found)?, Reference.read_tensor(&expected)?);
        assert_eq!(found.len(), expected.len());
        // The largest of some differences passes over NaN.
        assert!(found.iter().all(|x| x.is_finite()), "{mask:?}, {kind:?}, {heads} heads of {head_dim}");
        let differences = found.iter().zip(&expected).map(|(found, expected)| (found - expected).abs());
        Ok(differences.fold(0.0, f32::max))
    };
    match kind {
        Kind::None => run(AttentionBias::None, AttentionBias::None),
        Kind::Relative(buckets) => {
            let table = matrix(device, seed, buckets.table_rows(), heads)?;
            run(
                AttentionBias::Relative { table: &table.0, buckets },
                AttentionBias::Relative { table: &table.1, buckets },
            )
        }
        Kind::Disentangled(buckets, keys, queries) => {
            let mut positions =
                |there: bool| there.then(|| tensor(device, seed, buckets.table_rows(), heads * head_dim)).transpose();
            let (keys, queries) = (positions(keys)?, positions(queries)?);
            let (position_keys, position_queries) = (keys.as_ref().map(|k| &k.0), queries.as_ref().map(|q| &q.0));
            let on_device = DisentangledBias { position_keys, position_queries, buckets };
            let (position_keys, position_queries) = (keys.as_ref().map(|k| &k.1), queries.as_ref().map(|q| &q.1));
            let plain = DisentangledBias { position_keys, position_queries, buckets };
            run(AttentionBias::Disentangled(on_device), AttentionBias::Disentangled(plain))
        }
    }
}

#[test]
fn heads_of_all_sizes_with_all_biases_are_the_references() {
    const T5: DistanceBuckets = DistanceBuckets::T5 { count: 32, max_distance: 128, bidirectional: true };
    const LOG: DistanceBuckets = DistanceBuckets::Log { span: 64, max_position: 128 };
    const FAR: DistanceBuckets = DistanceBuckets::Log { span: 256, max_position: 512 };
    let cases = [
        (AttentionMask::Causal, Kind::None),
        (AttentionMask::Window(90), Kind::None),
        (AttentionMask::Full, Kind::Relative(T5)),
        (AttentionMask::Window(33), Kind::Relative(LOG)),
        (AttentionMask::Full, Kind::Disentangled(FAR, true, true)),
        (AttentionMask::Full, Kind::Disentangled(LOG, false, true)),
        (AttentionMask::Causal, Kind::Disentangled(T5, true, false)),
    ];
    let heads = [32, 40, 64, 96, 128, 136].map(|head_dim| Heads { heads: 2, kv_heads: 1, head_dim });
    let mut seed = 3;
    let emulator =
        Emulator::new(EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")).order(ThreadOrder::Shuffled(5))).unwrap();
    let device = Cuda::new(emulator, Arithmetic::Bf16);
    for ((mask, kind), heads) in cases.into_iter().flat_map(|case| heads.map(|heads| (case, heads))) {
        let largest = difference(&device, mask, kind, heads, &mut seed).unwrap();
        eprintln!("{mask:?}, {kind:?}, {heads:?}: {largest:e}");
        // Weights and results are rounded to 8 bits; results reach 1.7.
        assert!(largest < 1.2e-2, "{mask:?}, {kind:?}, {heads:?}: {largest}");
    }
}

/// A query row that is alone in its block with the heads of its group has the bits that it has beside other rows of one
/// head. Groups of one head, of half a warp's rows and of one more, and of as many as a block has, and one more.
#[test]
fn grouped_heads_have_the_bits_of_single_ones() {
    let heads = [(32, 4, 2), (40, 8, 1), (64, 32, 1), (64, 33, 1), (96, 10, 2), (128, 34, 2), (128, 4, 4), (20, 6, 2)];
    let mut seed = 8;
    let emulator =
        Emulator::new(EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")).order(ThreadOrder::Shuffled(6))).unwrap();
    let device = Cuda::new(emulator, Arithmetic::Bf16);
    for (head_dim, heads, kv_heads) in heads {
        let (key_start, value_start) = (heads * head_dim, (heads + kv_heads) * head_dim);
        let columns = value_start + kv_heads * head_dim;
        let Both(fused, _) = tensor(&device, &mut seed, 205, columns).unwrap();
        // The last rows of three sequences of keys, at which the fourth begins anew.
        let queries: Vec<u32> = vec![69, 199, 204, 203, 67];
        let single = device.gather(&fused, &queries).unwrap();
        let prompts = Packing::of_lengths([70, 130, 5]);
        let mut steps = Packing::new();
        for (first, keys) in [(0, 70), (70, 130), (200, 5), (200, 4), (0, 68)] {
            steps.push(1, [(first, keys)]);
        }
        for mask in [AttentionMask::Causal, AttentionMask::Window(66), AttentionMask::Window(3)] {
            let attend = |q: &Tensor<EmulatorBuffer>, packing: &Packing| {
                let bias = AttentionBias::None;
                let attention = Attention { heads, kv_heads, head_dim, scale: 0.2, mask, bias, packing };
                let at = |tensor, start| TensorColumns { tensor, start };
                let found = device.attention(at(q, 0), at(&fused, key_start), at(&fused, value_start), &attention);
                device.read_tensor(&found.unwrap()).unwrap()
            };
            let (together, alone) = (attend(&fused, &prompts), attend(&single, &steps));
            for (row, query) in queries.iter().enumerate() {
                let of = |numbers: &[f32], row: usize| {
                    numbers[row * key_start..][..key_start].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
                };
                let (found, expected) = (of(&alone, row), of(&together, *query as usize));
                assert!(found == expected, "{mask:?}, {heads} heads of {head_dim}, {kv_heads} of keys, query {query}");
            }
        }
    }
}
