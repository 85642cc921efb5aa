//! Pins the notes of commits and the live table.

use crate::golden;
use hopeval_jobs::run::evaluator::TallyKey;
use hopeval_jobs::run::live_table::{LiveTable, live_object};
use hopeval_jobs::run::writes::CommitNote;
use hopeval_jobs::services::usage::{ModelUsage, ServiceUsage, Usage};

fn used() -> ServiceUsage {
    let model = ModelUsage {
        prompt_tokens: 9,
        completion_tokens: 10,
        scored_tokens: 11,
        operations: 12,
        computed_tokens: 13,
        cut: 14,
        device_us: 15,
        metered_us: 16,
        energy_uj: 17,
    };
    let usage = Usage {
        requests: 1,
        unique: 2,
        journalled: 3,
        computed: 4,
        failed: 5,
        unreadable: 6,
        service_us: u64::MAX,
        model,
    };
    ServiceUsage { service: "s".to_owned(), usage }
}

fn live() -> LiveTable {
    let key = TallyKey { configuration: 70_000, stratum: 2, measure: 3 };
    let tallies = vec![(TallyKey::default(), (0, 0, 0, 0)), (key, (10, 9, -8, i128::from(i64::MAX)))];
    LiveTable { commits: 1, outcomes: 2, golds: 3, tallies }
}

#[test]
fn notes_and_live_tables_are_those_of_the_golden_file() {
    let idle = ServiceUsage { service: "idle".to_owned(), ..ServiceUsage::default() };
    let note = |note: CommitNote| serde_json::to_value(note).unwrap().to_string();
    let table = |table: LiveTable| serde_json::to_string(&table).unwrap();
    golden::check(
        "commits",
        [
            format!("note {}", note(CommitNote { spent: vec![used(), idle] })),
            format!("note-empty {}", note(CommitNote::default())),
            format!("live {}", table(live())),
            format!("live-empty {}", table(LiveTable::default())),
            format!("live-object {}", live_object("r")),
        ],
    );
}

/// Commits of earlier versions lack later fields.
#[test]
fn earlier_commits_are_read() {
    let note = r#"{"spent": [{"service": "s", "requests": 1, "unique": 2, "journalled": 3, "computed": 4, "failed": 5,
        "unreadable": 6, "service_us": 7}]}"#;
    let read: CommitNote = serde_json::from_str(note).unwrap();
    assert_eq!((read.spent[0].usage.computed, read.spent[0].usage.model), (4, ModelUsage::default()));
    let model: ModelUsage = serde_json::from_str(r#"{"prompt_tokens": 9, "device_us": 15}"#).unwrap();
    assert_eq!(model, ModelUsage { prompt_tokens: 9, device_us: 15, ..ModelUsage::default() });
    let table = r#"{"commits": 1, "outcomes": 2, "tallies": [[{"configuration": 1, "stratum": 2, "measure": 3}, [1, 1, 5, 5]]]}"#;
    let read: LiveTable = serde_json::from_str(table).unwrap();
    assert_eq!((read.golds, read.tallies[0].1), (0, (1, 1, 5, 5)));
}
