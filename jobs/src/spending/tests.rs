//! The ledger over a store: generations, caps, notes.

use super::*;
use hopeval_results::layout;
use std::sync::mpsc::{Receiver, channel};

fn amounts(money_nanos: u64) -> SpentAmounts {
    SpentAmounts { calls: 1, tokens: 7, money_nanos }
}

fn faults() -> SpendingFaults {
    SpendingFaults { fault: RunFault::default(), leave: RunFault::default() }
}

fn open(
    store: &Store,
    generation: u64,
    journalled: u64,
    raised: SpendingCap,
    faults: &SpendingFaults,
) -> SpendingLedger {
    let counted = BTreeMap::from([("llm".to_owned(), SpentAmounts { money_nanos: journalled, ..amounts(0) })]);
    let cap = SpendingCap { money: Some(1e-6), ..SpendingCap::default() };
    let spent = SpendingRun { run: "r", generation, counted, cap, raised, currency: None };
    SpendingLedger::open(store, &spent, faults.clone()).unwrap()
}

fn request(ledger: &SpendingLedger, most: u64) -> Receiver<SpendingPermit> {
    let (sender, receiver) = channel();
    ledger.request(&"llm".into(), amounts(most), Box::new(move |permit| drop(sender.send(permit))));
    receiver
}

fn notes(store: &Store) -> Vec<u64> {
    let listed = store.list(&layout::spending_folder("r")).unwrap();
    listed.iter().map(|(name, _)| layout::spending_number("r", name).unwrap()).collect()
}

#[test]
fn a_generation_takes_what_an_earlier_one_may_still_spend() {
    let store = Store::open("memory:").unwrap();
    let faults = faults();
    let first = open(&store, 1, 0, SpendingCap::default(), &faults);
    let out = request(&first, 600).recv().unwrap();
    // The process is taken for dead. All that it was allowed counts as spent, although its journal has nothing.
    let last = SpendingNote::read_last(&store, "r").unwrap().unwrap();
    assert!(last.allowed["llm"].money_nanos >= 600 && last.generation == 1);
    let second = open(&store, 2, 0, SpendingCap::default(), &faults);
    let beyond = request(&second, 500);
    assert!(beyond.recv().is_err(), "600 and 500 are above 1,000");
    let error = faults.leave.take().unwrap();
    assert!(matches!(error, JobError::CapReached { key: "money", .. }), "{error}");
    // It goes on, and finds that its next number is taken.
    out.settle(AttemptBill::Counted(amounts(600)));
    drop(request(&first, 390));
    first.wait_for_flush();
    let error = faults.fault.take().expect("a fault");
    assert!(error.is_superseded(), "{error}");
    // A higher cap, for this generation and the next ones.
    let higher = SpendingCap { money: Some(3e-6), ..SpendingCap::default() };
    for (generation, raised) in [(3, higher), (4, SpendingCap::default())] {
        let ledger = open(&store, generation, 600, raised, &faults);
        request(&ledger, 500).recv().unwrap().settle(AttemptBill::Nothing);
        ledger.wait_for_flush();
    }
    assert_eq!(SpendingNote::read_last(&store, "r").unwrap().unwrap().cap, higher);
}

#[test]
fn notes_are_few_and_the_last_one_is_exact() {
    let store = Store::open("memory:").unwrap();
    let faults = faults();
    let ledger = open(&store, 1, 0, SpendingCap { money: Some(1.0), ..SpendingCap::default() }, &faults);
    for _ in 0..1_000 {
        request(&ledger, 500).recv().unwrap().settle(AttemptBill::Counted(amounts(100)));
    }
    drop(request(&ledger, 40).recv().unwrap());
    ledger.wait_for_flush();
    assert!(ledger.is_flushed());
    let last = SpendingNote::read_last(&store, "r").unwrap().unwrap();
    // One call was journalled before.
    assert_eq!(last.allowed["llm"], SpentAmounts { calls: 1_002, tokens: 7_014, money_nanos: 100_040 });
    let kept = notes(&store);
    assert!(kept.len() == 2 && kept[0] == 0 && kept[1] < 100, "the first and the last one: {kept:?}");
    let bytes = store.get(&layout::spending_note("r", 0)).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap().replace([' ', '\n'], "");
    let stored =
        r#"{"version":1,"generation":1,"cap":{"money":1.0},"allowed":{"llm":{"calls":1,"tokens":7,"money_nanos":0}},"#;
    assert!(text.starts_with(stored), "notes of all versions are read: {text}");
    // A damaged note is named, not passed over.
    let name = layout::spending_note("r", kept[1]);
    let mut bytes = store.get(&name).unwrap().to_vec();
    let digit = bytes.iter().position(u8::is_ascii_digit).unwrap();
    bytes[digit] = b'3';
    store.put(&name, bytes.into()).unwrap();
    let error = SpendingNote::read_last(&store, "r").unwrap_err().to_string();
    assert!(error.contains(&name), "{error}");
}
