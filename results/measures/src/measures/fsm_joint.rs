//! `fsm_joint`: whether to give `fsm_joint_em` and `fsm_joint_f1`, FSM's own "joint" figures.
//!
//! FSM (arXiv 2407.02964), caption of table 1: joint means the evidence triples. So these are exact match and F1 of the
//! set of triples, compared as by 2WikiMultihopQA's script, and undefined for questions without gold triples. They are
//! no product with the answer or the supporting facts: never compare them with `joint_*`. The table's own
//! figures for HotpotQA, which has no triples, and those whose exact match is above their F1 follow no such definition.

use super::MeasureKey;
use crate::answer::Profile;
use crate::registry::Column;

pub(crate) struct FsmJoint;

impl MeasureKey for FsmJoint {
    type Value = bool;

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        let columns = ["em", "f1"].into_iter().enumerate().map(|(field, name)| {
            Column::new(format!("fsm_joint_{name}"), "1", move |input| Some(input.facts.evidences?.fields()[field]))
        });
        columns.collect()
    }
}
