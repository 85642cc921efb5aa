//! Parts of an index against the whole index. The vectors have few different products, so many passages tie.

use super::*;
use crate::cache::Cache;
use crate::services::dense::DenseSettings;
use crate::services::dense::serve::merge_rankings;
use crate::services::lm::{LmService, LmSettings};
use hopeval_index::{DenseIndex, DenseParameters, DenseWriter, VectorDtype};
use hopeval_operators::scatter::{QueryEnd, query_channel, scatter};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use timely::dataflow::operators::Input;

const PASSAGES: u32 = 23;

/// A service over an index of small whole numbers; its encoder is never asked.
fn dense(dir: &Path) -> DenseService {
    let parameters = DenseParameters { encoder: "by hand".into(), dtype: VectorDtype::F16 };
    let path = dir.join("index");
    let mut writer = DenseWriter::create(&path, "corpus", &parameters, 3, PASSAGES).unwrap();
    for passage in 0..PASSAGES {
        let number = |place: u32| ((passage * 7 + place * 5) % 4) as f32 - 1.0;
        writer.place(passage, &[number(0), number(1), number(2)]).unwrap();
    }
    writer.finish().unwrap();
    let settings: DenseSettings = serde_json::from_value(json!({"encoder": "encoder"})).unwrap();
    let encoder: LmSettings = serde_json::from_value(json!({"model": "none"})).unwrap();
    let encoder = Arc::new(LmService::new("encoder", encoder, 1, dir));
    let dense = DenseService::new("dense", &settings, encoder, &Cache::new(dir.join("cache"))).unwrap();
    let index = DenseIndex::open(&path, "corpus", &parameters).unwrap();
    assert!(dense.index.set(index).is_ok());
    dense
}

fn query(vector: &[f32], k: usize, within: Option<&[u32]>) -> VectorQuery {
    VectorQuery { service: "dense".into(), vector: vector.to_vec(), k, within: within.map(<[u32]>::to_vec) }
}

fn queries() -> Vec<VectorQuery> {
    let vectors: [&[f32]; 3] = [&[1.0, 0.0, -1.0], &[0.0, 0.0, 0.0], &[-0.5, 2.0, 0.25]];
    let restrictions: [Option<&[u32]>; 4] = [None, Some(&[9, 22, 0, 9, 5, 500]), Some(&[17]), Some(&[])];
    let mut queries = Vec::new();
    for vector in vectors {
        for within in restrictions {
            queries.extend([0, 1, 4, 100].map(|k| query(vector, k, within)));
        }
    }
    queries.push(query(&[1.0], 4, None));
    queries.push(query(&[1.0, f32::NAN, 0.0], 4, None));
    queries
}

/// The rankings of the whole index, in comparable form.
fn whole(dense: &DenseService, queries: &[VectorQuery]) -> Vec<Result<Vec<(u32, u64)>, Failure>> {
    let part = IndexPart { dense, part: 0, parts: 1 };
    part.rank_passages(queries.iter(), &mut SearchScratch::default()).into_iter().map(bits).collect()
}

fn bits(ranking: Result<Vec<Hit>, Failure>) -> Result<Vec<(u32, u64)>, Failure> {
    Ok(ranking?.into_iter().map(|hit| (hit.id, hit.score.to_bits())).collect())
}

#[test]
fn merged_parts_equal_the_whole_index() {
    let dir = tempfile::tempdir().unwrap();
    let (dense, queries) = (dense(dir.path()), queries());
    let expected = whole(&dense, &queries);
    assert_eq!(expected.iter().filter(|ranking| ranking.is_err()).count(), 2);
    assert_eq!(expected[3].as_ref().map(Vec::len), Ok(PASSAGES as usize));
    for parts in [2, 3, 7, 40] {
        let mut found: Vec<Vec<PartResult>> = queries.iter().map(|_| Vec::new()).collect();
        for part in 0..parts {
            let rankings =
                IndexPart { dense: &dense, part, parts }.rank_passages(queries.iter(), &mut SearchScratch::default());
            for (found, ranking) in found.iter_mut().zip(rankings) {
                found.push(PartResult { ranking, service_us: 0 });
            }
        }
        let found = found.into_iter().zip(&queries).map(|(found, query)| bits(merge_rankings(found, query.k)));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{parts} parts");
    }
}

#[test]
fn a_worker_searches_its_own_rows_and_each_row_is_somebodys() {
    let dir = tempfile::tempdir().unwrap();
    let dense = dense(dir.path());
    for parts in [1, 2, 5, 30] {
        let mut searched = Vec::new();
        for part in 0..parts {
            let all = [query(&[1.0, 1.0, 1.0], PASSAGES as usize, None)];
            let ranking = IndexPart { dense: &dense, part, parts }
                .rank_passages(all.iter(), &mut SearchScratch::default())
                .remove(0);
            let mut rows: Vec<u32> = ranking.unwrap().into_iter().map(|hit| hit.id).collect();
            assert!(rows.len() <= PASSAGES.div_ceil(parts) as usize, "{rows:?} is more than a part of {parts}");
            rows.sort_unstable();
            searched.extend(rows);
        }
        assert_eq!(searched, (0..PASSAGES).collect::<Vec<_>>());
    }
}

#[test]
fn workers_ask_each_other_and_a_missing_part_fails_the_query() {
    let dir = tempfile::tempdir().unwrap();
    let dense = dense(dir.path());
    let mut queries = queries();
    let mut expected = whole(&dense, &queries);
    queries.push(VectorQuery { service: "unknown".into(), ..query(&[0.0; 3], 1, None) });
    let message = "a worker dropped its part of the search".to_owned();
    expected.push(Err(Failure { kind: FailureKind::Dropped, message }));
    let services = Services::from([(Arc::from("dense"), Arc::new(dense) as _)]);
    let communication = timely::CommunicationConfig::ProcessBinary(3);
    let config = timely::Config { communication, worker: timely::WorkerConfig::default() };
    let guards = timely::execute(config, move |worker| {
        let (inlet, asked) = query_channel();
        let shards = IndexShards::open(&services, worker.index(), worker.peers()).unwrap();
        let held = worker.dataflow::<u64, _, _>(|scope| {
            let (input, held) = scope.new_input::<Vec<()>>();
            scatter(held, asked, shards);
            input
        });
        let (told, hears) = channel();
        inlet.ask_all(queries.iter().cloned().enumerate().map(|(n, query)| {
            let (told, k) = (told.clone(), query.k);
            (query, Box::new(move |found| drop(told.send((n, merge_rankings(found, k))))) as QueryEnd<PartResult>)
        }));
        let mut heard = BTreeMap::new();
        while heard.len() < queries.len() {
            worker.step_or_park(Some(Duration::from_millis(5)));
            heard.extend(hears.try_iter());
        }
        held.close();
        heard.into_values().map(bits).collect::<Vec<_>>()
    });
    for heard in guards.unwrap().join() {
        assert_eq!(heard.unwrap(), expected);
    }
}
