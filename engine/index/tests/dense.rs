//! The dense index against the definition, its independence of everything but the numbers, and damaged files.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::{fs, path::Path};

use hopeval_index::{
    Bm25Index, Bm25Parameters, DenseIndex, DenseParameters, DenseQuery, DenseWriter, Hit, IndexError, SearchScratch,
    VectorDtype,
};

fn parameters(dtype: VectorDtype) -> DenseParameters {
    DenseParameters { encoder: "encoder".into(), dtype }
}

/// Numbers of a few values only, to make many products equal; all are exact in half precision.
fn coarse(count: usize, seed: u64) -> Vec<f32> {
    numbers(count, seed).into_iter().map(|x| (x * 2.0).round() / 2.0).collect()
}

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Writes vectors in blocks of `block` rows.
fn write(path: &Path, vectors: &[f32], dimension: usize, dtype: VectorDtype, block: usize) {
    let passages = (vectors.len() / dimension) as u32;
    let mut writer = DenseWriter::create(path, "corpus", &parameters(dtype), dimension, passages).unwrap();
    // Backwards: the order does not matter.
    let blocks = (0u32..).step_by(block).zip(vectors.chunks(block * dimension));
    blocks.collect::<Vec<_>>().into_iter().rev().for_each(|(first, block)| writer.place(first, block).unwrap());
    writer.finish().unwrap();
}

fn opened(folder: &Path, vectors: &[f32], dimension: usize, dtype: VectorDtype) -> DenseIndex {
    let path = folder.join(dtype.name());
    write(&path, vectors, dimension, dtype, 7);
    let index = DenseIndex::open(&path, "corpus", &parameters(dtype)).unwrap();
    index.verify().unwrap();
    assert_eq!((index.len() as usize, index.dimension(), index.dtype()), (vectors.len() / dimension, dimension, dtype));
    index
}

fn found(index: &DenseIndex, queries: &[DenseQuery<'_>]) -> Vec<Vec<Hit>> {
    index.search(queries, &mut SearchScratch::default()).into_iter().map(Result::unwrap).collect()
}

fn queries(vectors: &[f32], dimension: usize, k: usize) -> Vec<DenseQuery<'_>> {
    vectors.chunks(dimension).map(|vector| DenseQuery { vector, k, within: None }).collect()
}

/// All passages by descending product in double precision, then ascending number.
fn ranked(vectors: &[f32], query: &[f32], keep: impl Fn(u32) -> bool) -> Vec<Hit> {
    let product = |row: &[f32]| row.iter().zip(query).map(|(&x, &q)| f64::from(x) * f64::from(q)).sum::<f64>() + 0.0;
    let mut hits: Vec<Hit> = (0..)
        .zip(vectors.chunks(query.len()))
        .filter(|(id, _)| keep(*id))
        .map(|(id, row)| Hit { id, score: product(row) })
        .collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits
}

/// Products of coarse numbers are exact in single precision: scores, order and ties are those of the definition.
#[test]
fn hits_are_the_definition_with_many_ties() {
    let folder = tempfile::tempdir().unwrap();
    for (dimension, count) in [(1, 700), (5, 1000), (16, 97), (33, 500), (48, 6)] {
        let (vectors, asked) = (coarse(dimension * count, 1), coarse(dimension * 9, 2));
        for dtype in [VectorDtype::F32, VectorDtype::F16] {
            let index = opened(folder.path(), &vectors, dimension, dtype);
            for k in [1, 10, 100, 2000] {
                for (query, hits) in asked.chunks(dimension).zip(found(&index, &queries(&asked, dimension, k))) {
                    let mut wanted = ranked(&vectors, query, |_| true);
                    wanted.truncate(k);
                    assert_eq!(hits, wanted, "{dimension} {count} {dtype:?} {k}");
                }
            }
        }
    }
}

#[test]
fn scores_are_near_the_exact_products() {
    let folder = tempfile::tempdir().unwrap();
    let (dimension, count) = (100, 3000);
    let (vectors, asked) = (numbers(dimension * count, 3), numbers(dimension * 5, 4));
    for dtype in [VectorDtype::F32, VectorDtype::F16] {
        let index = opened(folder.path(), &vectors, dimension, dtype);
        // The stored numbers: in half precision, numbers of 11 bits.
        let stored: Vec<f32> = (0..count as u32).flat_map(|id| index.vector(id).unwrap()).collect();
        let off = vectors.iter().zip(&stored).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(
            if dtype == VectorDtype::F32 { off == 0.0 } else { off > 0.0 && off <= 0.5 / 2048.0 },
            "{dtype:?} {off}"
        );
        for (query, hits) in asked.chunks(dimension).zip(found(&index, &queries(&asked, dimension, count))) {
            assert_eq!(hits.len(), count);
            assert!(hits.is_sorted_by(|a, b| a.ranking(b).is_lt()));
            let mut exact = ranked(&stored, query, |_| true);
            exact.sort_by_key(|hit| hit.id);
            assert!(hits.iter().all(|hit| (hit.score - exact[hit.id as usize].score).abs() < 1e-4));
        }
    }
    let index = opened(folder.path(), &vectors, dimension, VectorDtype::F32);
    assert_eq!(index.vector(count as u32), None);
}

/// Neither the batch nor its order, nor shards, nor a restriction change a bit.
#[test]
fn batches_shards_and_restrictions_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Queries of 40 KB: 90 of them do not fit into a cache together.
    for (dimension, count, asked) in [(67, 2000, 31), (10_000, 40, 90)] {
        let (vectors, asked) = (numbers(dimension * count, 5), numbers(dimension * asked, 6));
        let asked = queries(&asked, dimension, 25);
        for dtype in [VectorDtype::F32, VectorDtype::F16] {
            let index = opened(folder.path(), &vectors, dimension, dtype);
            let whole = found(&index, &asked);
            let mut scratch = SearchScratch::default();
            for (query, whole) in asked.iter().zip(&whole) {
                assert_eq!(&index.search(&[*query], &mut scratch).remove(0).unwrap(), whole);
            }
            let reversed: Vec<_> = asked.iter().rev().copied().collect();
            assert!(found(&index, &reversed).iter().eq(whole.iter().rev()));
            for parts in [1, 2, 7, 64] {
                let shards: Vec<_> = (0..parts).map(|part| index.part(part, parts)).collect();
                assert_eq!(
                    shards.iter().flat_map(|shard| shard.rows()).collect::<Vec<_>>(),
                    (0..count as u32).collect::<Vec<_>>()
                );
                let lists: Vec<_> = shards.iter().map(|shard| shard.search(&asked, &mut scratch)).collect();
                for (at, whole) in whole.iter().enumerate() {
                    let lists = lists.iter().map(|list| list[at].as_ref().unwrap().as_slice());
                    assert_eq!(&Hit::merge(lists, 25), whole, "{parts} shards");
                }
            }
            // All passages, and others, as a restriction: backwards and twice.
            let all: Vec<u32> = (0..count as u32 + 9).rev().flat_map(|id| [id, id]).collect();
            let within: Vec<_> = asked.iter().map(|query| DenseQuery { within: Some(&all), ..*query }).collect();
            assert_eq!(found(&index, &within), whole);
        }
    }
}

#[test]
fn restrictions_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (vectors, query) = (coarse(20 * 400, 7), coarse(20, 8));
    let index = opened(folder.path(), &vectors, 20, VectorDtype::F16);
    let ids: Vec<u32> = (0..400).filter(|id| id % 3 == 1).collect();
    let search = |within: Option<&[u32]>, k| found(&index, &[DenseQuery { vector: &query, k, within }]).remove(0);
    assert_eq!(search(Some(&ids), 400), ranked(&vectors, &query, |id| id % 3 == 1));
    assert_eq!(search(Some(&ids), 5), ranked(&vectors, &query, |id| id % 3 == 1)[..5]);
    assert_eq!(search(Some(&[]), 5), []);
    assert_eq!(search(Some(&[400, u32::MAX]), 5), []);
    assert_eq!(search(None, 0), []);
    // A shard searches its own passages only.
    let query = DenseQuery { vector: &query, k: 400, within: Some(&ids) };
    let shard = index.shard(100..200).search(&[query], &mut SearchScratch::default()).remove(0).unwrap();
    assert_eq!(shard, ranked(&vectors, query.vector, |id| id % 3 == 1 && (100..200).contains(&id)));
    assert_eq!(index.shard(390..1000).rows(), 390..400);
    assert_eq!(index.shard(1000..1001).rows(), 400..400);
}

#[test]
fn zeros_of_both_signs_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    // 2^-100 * -2^-100 is too small for single precision, and rounds to -0.0.
    let tiny = 2.0f32.powi(-100);
    let index = opened(folder.path(), &[-tiny, 0.0, tiny], 1, VectorDtype::F32);
    let hits = found(&index, &[DenseQuery { vector: &[tiny], k: 3, within: None }]).remove(0);
    assert_eq!(hits.iter().map(|hit| (hit.id, hit.score.to_bits())).collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn vectors_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let create = |dtype| DenseWriter::create(&path, "corpus", &parameters(dtype), 3, 4);
    let refused = |dtype, block: &[f32]| {
        let mut writer = create(dtype).unwrap();
        writer.place(0, &[0.0; 3]).unwrap();
        let error = writer.place(1, block).unwrap_err();
        assert_eq!(writer.count(), 1, "nothing of the block is kept");
        error.to_string()
    };
    let says = |message: String, parts: &[&str]| assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    says(refused(VectorDtype::F32, &[1.0, 2.0, 3.0, 4.0, f32::NAN, 5.0]), &["passage 2", "number 1 is NaN", "finite"]);
    says(refused(VectorDtype::F32, &[1.0, f32::INFINITY, 3.0]), &["passage 1", "number 1 is inf"]);
    says(refused(VectorDtype::F32, &[1.0, 2e18, 3.0]), &["passage 1", "length", "1e18"]);
    says(refused(VectorDtype::F32, &[1.0, 2.0, 3.0, 4.0]), &["passage 2", "1 numbers", "of 3"]);
    says(refused(VectorDtype::F16, &[1.0, 70_000.0, 3.0]), &["passage 1", "number 1 is 70000", "65504"]);
    assert!(matches!(
        create(VectorDtype::F32).unwrap().place(0, &[0.0; 15]),
        Err(IndexError::Count { found: 5, wanted: 4 })
    ));
    assert!(matches!(create(VectorDtype::F32).unwrap().finish(), Err(IndexError::Count { found: 0, wanted: 4 })));
    let mut holed = create(VectorDtype::F32).unwrap();
    [0, 1, 1, 3].into_iter().for_each(|passage| holed.place(passage, &[0.0; 3]).unwrap());
    assert!(matches!(holed.finish(), Err(IndexError::Count { found: 3, wanted: 4 })), "passage 2 has none");
    for dimension in [0, 65_537] {
        let error = DenseWriter::create(&path, "corpus", &parameters(VectorDtype::F32), dimension, 1).err().unwrap();
        assert!(matches!(error, IndexError::Parameter { field: "dimension", .. }));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of files that were not finished");

    // Only the bad query is refused.
    let index = opened(folder.path(), &[1.0, 2.0, 3.0], 3, VectorDtype::F32);
    let vectors: [&[f32]; 4] = [&[1.0, 0.0, 0.0], &[1.0, 0.0], &[f32::NAN, 0.0, 0.0], &[0.0, 1.0, 0.0]];
    let asked: Vec<_> = vectors.iter().map(|vector| DenseQuery { vector, k: 1, within: None }).collect();
    let answers = index.search(&asked, &mut SearchScratch::default());
    assert_eq!(answers[0].as_ref().unwrap(), &[Hit { id: 0, score: 1.0 }]);
    assert_eq!(answers[3].as_ref().unwrap(), &[Hit { id: 0, score: 2.0 }]);
    for (answer, said) in answers[1..3].iter().zip(["2 numbers", "NaN"]) {
        let message = answer.as_ref().unwrap_err().to_string();
        assert!(message.starts_with("the query's vector") && message.contains(said), "{message}");
    }
}

#[test]
fn bytes_do_not_depend_on_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = numbers(50 * 6000, 9);
    for dtype in [VectorDtype::F32, VectorDtype::F16] {
        let files: Vec<Vec<u8>> = [1, 999, 6000]
            .into_iter()
            .map(|block| {
                let path = folder.path().join(format!("{} {block}", dtype.name()));
                write(&path, &vectors, 50, dtype, block);
                fs::read(path).unwrap()
            })
            .collect();
        assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn no_passages_are_no_hits() {
    let folder = tempfile::tempdir().unwrap();
    let index = opened(folder.path(), &[], 8, VectorDtype::F32);
    assert!(index.is_empty());
    assert_eq!(found(&index, &[DenseQuery { vector: &[1.0; 8], k: 3, within: None }]), [[]]);
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let good = parameters(VectorDtype::F32);
    write(&path, &numbers(80, 1), 8, VectorDtype::F32, 10);
    let error = |corpus, parameters: &DenseParameters| DenseIndex::open(&path, corpus, parameters).err().unwrap();
    assert!(matches!(error("other", &good), IndexError::Mismatch { what: "corpus", .. }));
    let half = parameters(VectorDtype::F16);
    assert!(error("corpus", &half).to_string().contains("dtype=f32"));
    let other = DenseParameters { encoder: "another".into(), ..good.clone() };
    assert!(matches!(error("corpus", &other), IndexError::Mismatch { what: "layout", .. }));
    let keys = [&good, &half, &other].map(|parameters| DenseIndex::key("corpus", parameters));
    assert!(keys.iter().all(|key| key.len() == 64) && keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    assert_ne!(keys[0], DenseIndex::key("other", &good));

    let sparse = Bm25Parameters::default();
    assert!(Bm25Index::open(&path, "corpus", &sparse).is_err());
    let passages = vec![("Title", "text")];
    Bm25Index::build(&passages, "corpus", &sparse, &path, 1).unwrap();
    assert!(matches!(error("corpus", &good), IndexError::Mismatch { what: "layout", .. }));
    let missing = DenseIndex::open(&folder.path().join("none"), "corpus", &good).err().unwrap();
    assert!(matches!(missing, IndexError::Io { action: "open", .. }));
}

/// For any damage to a file, opening and searching it gives an error or hits, never a panic, and `verify` finds it.
#[test]
fn damage_is_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let query = numbers(30, 2);
    for dtype in [VectorDtype::F32, VectorDtype::F16] {
        write(&path, &numbers(30 * 200, 1), 30, dtype, 200);
        let good = fs::read(&path).unwrap();
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            DenseIndex::open(&path, "corpus", &parameters(dtype))
        };
        let mut version = good.clone();
        version[8] += 1;
        assert!(matches!(open(&version), Err(IndexError::ForeignVersion { .. })));
        assert!(matches!(open(&good[..good.len() - 1]), Err(IndexError::Truncated { .. })));
        assert!(matches!(open(&good[..20]), Err(IndexError::NotAnIndex { .. })));
        let mut state = 11u64;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let (mut refused, mut searched) = (0, 0);
        for round in 0..200 {
            let mut bad = good.clone();
            match round % 4 {
                0 => bad.truncate(next(good.len())),
                1 => bad[next(600)] ^= 1 << next(8),
                _ => (0..100).for_each(|_| bad[600 + next(good.len() - 600)] ^= next(256) as u8),
            }
            match open(&bad) {
                Err(_) => refused += 1,
                Ok(index) => {
                    searched += usize::from(index.verify().is_err());
                    let hits = found(&index, &[DenseQuery { vector: &query, k: 20, within: None }]);
                    assert!(hits[0].iter().all(|hit| hit.id < 200));
                }
            }
        }
        assert!(refused > 60 && searched > 20, "{refused} refused, {searched} searched");
    }
}

#[test]
fn files_of_killed_writers_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let (left, other) = ("index.1.0.part", "another.1.0.part");
    fs::write(folder.path().join(left), b"half").unwrap();
    fs::write(folder.path().join(other), b"half").unwrap();
    // From a process with this one's id, in its earlier life.
    for number in 0..100 {
        fs::write(folder.path().join(format!("index.{}.{number}.part", std::process::id())), b"").unwrap();
    }
    let create = || DenseWriter::create(&path, "corpus", &parameters(VectorDtype::F32), 1, 1).unwrap();
    let mut first = create();
    let mut second = create();
    assert_eq!(names().len(), 3, "two are written, and one is of another index: {:?}", names());
    assert!(!names().contains(&left.to_owned()) && names().contains(&other.to_owned()));
    for writer in [&mut first, &mut second] {
        writer.place(0, &[1.0]).unwrap();
    }
    second.finish().unwrap();
    first.finish().unwrap();
    assert_eq!(names(), [other, "index"]);
}
