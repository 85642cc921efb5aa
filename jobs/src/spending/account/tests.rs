//! The account by example, and under kills at any moment.

use super::*;

/// Draws numbers that look random, the same in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn amounts(money_nanos: u64) -> SpentAmounts {
    SpentAmounts { calls: 1, tokens: money_nanos / 10, money_nanos }
}

fn capped(money_nanos: u64) -> SpentAmounts {
    SpentAmounts { calls: u64::MAX, tokens: u64::MAX, money_nanos }
}

fn fresh(services: &[&str], cap: SpentAmounts) -> SpendingAccount {
    let counted = services.iter().map(|name| ((*name).to_owned(), SpentAmounts::default())).collect();
    SpendingAccount::open(&counted, None, cap)
}

#[test]
fn an_attempt_waits_for_a_note_and_what_it_does_not_use_comes_back() {
    let llm: Arc<str> = "llm".into();
    let mut account = fresh(&["llm"], capped(1_000));
    account.ask(&llm, amounts(400));
    account.ask(&llm, amounts(400));
    account.ask(&llm, amounts(400));
    assert!(account.permit_all().is_empty() && account.note_need(Duration::ZERO, false) == NoteNeed::Now);
    assert_eq!(account.begin_note(Duration::ZERO, false)["llm"].money_nanos, 805, "two, and a headroom of the cap's");
    assert!(account.permit_all().is_empty(), "the note is not durable yet");
    account.end_note();
    assert_eq!(account.permit_all().len(), 2);
    assert!(account.reach_cap().is_none(), "what is out may come back");
    assert_eq!(account.note_need(Duration::ZERO, false), NoteNeed::None, "a note does not help the third");
    account.settle(&llm, amounts(400), AttemptBill::Counted(amounts(100)));
    assert_eq!(account.permit_all().len(), 0, "500 + 400 are above the note");
    assert_eq!(account.note_need(Duration::ZERO, false), NoteNeed::Now);
    account.begin_note(Duration::ZERO, false);
    account.end_note();
    assert_eq!(account.permit_all().len(), 1);
    account.settle(&llm, amounts(400), AttemptBill::Nothing);
    account.settle(&llm, amounts(400), AttemptBill::Unanswered);
    account.ask(&llm, amounts(500));
    assert!(account.reach_cap().is_none());
    account.begin_note(Duration::ZERO, false);
    account.end_note();
    assert_eq!(account.permit_all().len(), 1);
    account.settle(&llm, amounts(500), AttemptBill::Counted(amounts(490)));
    account.ask(&llm, amounts(11));
    let error = account.reach_cap().expect("990 + 11 are above 1,000").into_error(Some("EUR"));
    let said = error.to_string();
    assert!(said.contains("`money` = 0.000001 EUR") && said.contains("[service.llm]"), "{said}");
    assert_eq!(error.raised_cap().as_deref(), Some("run.cap.money=0.000002"));
    account.ask(&llm, amounts(1));
    assert!(account.permit_all().is_empty() && account.reach_cap().is_none(), "nothing is permitted any more");
}

#[test]
fn each_amount_has_its_cap() {
    let llm: Arc<str> = "llm".into();
    let cap = SpentAmounts { calls: 2, ..capped(u64::MAX) };
    let mut account = fresh(&["llm"], cap);
    for _ in 0..3 {
        account.ask(&llm, amounts(10));
        account.begin_note(Duration::ZERO, false);
        account.end_note();
        for attempt in account.permit_all() {
            account.settle(&llm, attempt.most, AttemptBill::Counted(attempt.most));
        }
    }
    let said = account.reach_cap().expect("two calls").into_error(None);
    assert_eq!(said.raised_cap().as_deref(), Some("run.cap.calls=4"));
}

#[test]
fn notes_take_back_what_is_not_needed() {
    let llm: Arc<str> = "llm".into();
    let mut account = fresh(&["llm"], capped(u64::MAX));
    account.ask(&llm, amounts(1_000));
    account.begin_note(Duration::ZERO, false);
    account.end_note();
    account.permit_all();
    account.settle(&llm, amounts(1_000), AttemptBill::Counted(amounts(10)));
    assert!(!account.is_noted());
    assert!(matches!(account.note_need(Duration::from_millis(100), false), NoteNeed::After(_)));
    assert_eq!(account.note_need(Duration::from_millis(100), true), NoteNeed::Now, "a flush does not wait");
    assert_eq!(account.note_need(Duration::from_secs(2), false), NoteNeed::Now);
    assert_eq!(account.begin_note(Duration::from_secs(2), false)["llm"], amounts(10));
    account.end_note();
    assert!(account.is_noted() && account.note_need(Duration::from_secs(9), true) == NoteNeed::None);
}

#[test]
fn what_has_no_cap_has_little_headroom_too() {
    let llm: Arc<str> = "llm".into();
    let mut account = fresh(&["llm"], capped(100_000));
    // The headroom of money is bounded, so that notes follow each other without a pause.
    for _ in 0..200 {
        account.ask(&llm, amounts(400));
        let note = account.begin_note(Duration::ZERO, false)["llm"];
        let most = account.committed().calls * 17 / 16 + 3;
        assert!(note.calls <= most, "{note:?}, and {most} are enough");
        account.end_note();
        for attempt in account.permit_all() {
            account.settle(&llm, attempt.most, AttemptBill::Counted(attempt.most));
        }
    }
    assert_eq!(account.committed().calls, 200);
}

/// A server that is paid for every attempt that was sent, whatever becomes of it.
#[derive(Default)]
struct PaidServer {
    bill: u64,
    journalled: BTreeMap<String, SpentAmounts>,
}

/// A run that is killed at random moments: with attempts under way, with answers that no journal has, while notes are
/// written. `durable` is the last note in the store.
fn run_with_kills(seed: u64, cap: u64) -> (u64, u64) {
    let mut draws = Draws(seed);
    let names: [Arc<str>; 2] = ["judge".into(), "llm".into()];
    let mut server = PaidServer::default();
    let mut durable: Option<BTreeMap<String, SpentAmounts>> = None;
    let named = |note: BTreeMap<Arc<str>, SpentAmounts>| note.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
    let mut kills = 0;
    loop {
        let counted = |name: &Arc<str>| server.journalled.get(&**name).copied().unwrap_or_default();
        let counted = names.iter().map(|name| (name.to_string(), counted(name))).collect();
        let mut account = SpendingAccount::open(&counted, durable.as_ref(), capped(cap));
        durable = Some(named(account.committed_by_service()));
        let mut out: Vec<(Arc<str>, SpentAmounts)> = Vec::new();
        let mut unwritten: Vec<(Arc<str>, SpentAmounts)> = Vec::new();
        let mut writing: Option<BTreeMap<String, SpentAmounts>> = None;
        let mut clock = Duration::ZERO;
        for _ in 0..4_000 {
            clock += Duration::from_millis(draws.below(40));
            match draws.below(12) {
                0..=4 if account.waiting.len() < 40 => {
                    let name = &names[usize::from(draws.below(4) > 0)];
                    account.ask(name, amounts(500 + draws.below(500)));
                }
                5..=7 if !out.is_empty() => {
                    let (name, most) = out.swap_remove(draws.below(out.len() as u64) as usize);
                    let paid = amounts(most.money_nanos / 4);
                    let bill = match draws.below(20) {
                        0 => AttemptBill::Unanswered,
                        1 => AttemptBill::Nothing,
                        _ => AttemptBill::Counted(paid),
                    };
                    match bill {
                        AttemptBill::Nothing => {}
                        AttemptBill::Unanswered => server.bill += most.money_nanos,
                        AttemptBill::Counted(_) => {
                            server.bill += paid.money_nanos;
                            unwritten.push((name.clone(), paid));
                        }
                    }
                    account.settle(&name, most, bill);
                }
                8 => {
                    for (name, paid) in unwritten.drain(..) {
                        *server.journalled.entry(name.to_string()).or_default() += paid;
                    }
                }
                9 if writing.is_some() => {
                    durable = writing.take();
                    account.end_note();
                }
                10 if writing.is_none() && account.note_need(clock, false) == NoteNeed::Now => {
                    writing = Some(named(account.begin_note(clock, false)));
                }
                11 if draws.below(400) == 0 && kills < 12 => break,
                _ => {}
            }
            out.extend(account.permit_all().into_iter().map(|attempt| (attempt.service, attempt.most)));
            if account.reach_cap().is_some() {
                assert!(out.is_empty() && server.bill <= cap, "{} of {cap}", server.bill);
                return (server.bill, kills);
            }
        }
        kills += 1;
        // The kill: each attempt under way is paid for, a note under way may have arrived.
        server.bill += out.iter().map(|(_, most)| most.money_nanos).sum::<u64>();
        assert!(server.bill <= cap, "{} of {cap} after {kills} kills", server.bill);
        if draws.below(2) == 0 {
            durable = writing.or(durable);
        }
    }
}

#[test]
fn kills_at_any_moment_never_exceed_the_cap() {
    let mut killed = 0;
    for seed in 0..60 {
        let (bill, kills) = run_with_kills(seed, 1_000_000);
        killed += kills;
        // What a kill loses is what was under way and unknown, and the headroom.
        assert!(bill + 1_000 + kills * 45_000 >= 1_000_000, "{bill} after {kills} kills");
    }
    assert!(killed > 60, "{killed}");
}
