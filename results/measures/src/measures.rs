//! The measures of a job's `[measures]` table, one file per key.
//!
//! A line of the table below declares the file and names the key, so a new measure is a file and a line. The file has
//! the key's values and default and makes the columns, each with a name, a version and a function. [`MeasureSet`] takes
//! them in the table's order, after those of `answers.rs`, common to all profiles.
//!
//! `cargo fmt` does not see modules declared by a macro. `ops/format.sh` formats them, too.
//!
//! [`MeasureSet`]: crate::MeasureSet

pub(crate) mod answers;

use serde::{Deserialize, Serialize};

use crate::answer::Profile;
use crate::registry::{BadSetting, Column};

/// A key of the `[measures]` table, and its measures.
pub(crate) trait MeasureKey {
    /// Its values: the depths of the measure (`Vec<u32>`), or whether it is on (`bool`).
    type Value: KeyValue;

    /// The default value. A new key must be off, so that jobs without it stay unchanged.
    fn unset() -> Self::Value {
        Self::Value::default()
    }

    /// The measures in the order of tables. Called only if the key is on.
    fn build_columns(value: &Self::Value, profile: Profile) -> Vec<Column>;
}

/// A possible value of a key.
pub(crate) trait KeyValue: Default {
    /// Whether it gives no measures.
    fn is_off(&self) -> bool;

    /// The first entry that is not allowed.
    fn first_invalid(&self) -> Option<u32>;

    /// The largest cut-off of its measures; `None` without any.
    fn largest_cut_off(&self) -> Option<u32>;
}

impl KeyValue for Vec<u32> {
    fn is_off(&self) -> bool {
        self.is_empty()
    }

    fn first_invalid(&self) -> Option<u32> {
        let twice = |(at, k): (usize, &u32)| *k == 0 || self[..at].contains(k);
        self.iter().enumerate().find(|&entry| twice(entry)).map(|(_, &k)| k)
    }

    fn largest_cut_off(&self) -> Option<u32> {
        self.iter().copied().max()
    }
}

impl KeyValue for bool {
    fn is_off(&self) -> bool {
        !self
    }

    fn first_invalid(&self) -> Option<u32> {
        None
    }

    fn largest_cut_off(&self) -> Option<u32> {
        None
    }
}

macro_rules! measures {
    (
        always { $($key:ident = $file:ident::$Key:ident,)* }
        if_set { $($new:ident = $new_file:ident::$NewKey:ident,)* }
    ) => {
        $(pub mod $file;)*
        $(pub mod $new_file;)*

        /// The `[measures]` table of a job. Its JSON is part of a run's digest.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Settings {
            /// The profile with the scoring rules of answers; by default the dataset's.
            pub profile: Option<Profile>,
            $(
                #[doc = concat!("See `measures/", stringify!($file), ".rs`.")]
                pub(crate) $key: <$file::$Key as MeasureKey>::Value,
            )*
            $(
                #[doc = concat!("See `measures/", stringify!($new_file), ".rs`.")]
                #[serde(skip_serializing_if = "KeyValue::is_off")]
                pub(crate) $new: <$new_file::$NewKey as MeasureKey>::Value,
            )*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { profile: None, $($key: $file::$Key::unset(),)* $($new: $new_file::$NewKey::unset(),)* }
            }
        }

        impl Settings {
            /// Sets `answer_hit_at`, where it is off, to the depths of `recall_at`, or to their default.
            pub fn ensure_answer_hits(&mut self) {
                if self.answer_hit_at.is_off() {
                    let own = Some(&self.recall_at).filter(|depths| !depths.is_off());
                    self.answer_hit_at = own.cloned().unwrap_or_else(recall::Recall::unset);
                }
            }

            /// The measures of a run of judges, by the rules of `profile`.
            pub fn of_judges(profile: Profile) -> Self {
                Self { profile: Some(profile), $($key: Default::default(),)* judged: true, ..Self::default() }
            }

            /// The largest k of all measures `NAME@k`; `None` if no measure has a cut-off.
            pub fn largest_cut_off(&self) -> Option<u32> {
                let own = [$(self.$key.largest_cut_off(),)* $(self.$new.largest_cut_off(),)*];
                own.into_iter().flatten().max()
            }

            /// The requested measures, in the order of tables.
            pub(crate) fn columns(&self, profile: Profile) -> Result<Vec<Column>, BadSetting> {
                let mut columns = Vec::new();
                $(columns.extend(checked::<$file::$Key>(stringify!($key), &self.$key, profile)?);)*
                $(columns.extend(checked::<$new_file::$NewKey>(stringify!($new), &self.$new, profile)?);)*
                Ok(columns)
            }
        }
    };
}

measures! {
    // Written into every run's digest, also at their defaults.
    always {
        recall_at = recall::Recall,
        precision_at = precision::Precision,
        ndcg_at = ndcg::Ndcg,
        mrr = mrr::Mrr,
        mrr_at = mrr_at::MrrAt,
        map = map::Map,
        answer_recall_at = answer_recall::AnswerRecall,
        answer_hit_at = answer_hit::AnswerHit,
        budget_recall_at = budget_recall::BudgetRecall,
        chunk_recall = chunk_recall::ChunkRecall,
        facts = facts::Facts,
    }
    // New ones: written only by jobs that set them, so that the digests of all other jobs stay.
    if_set {
        migres = migres::MigresAnswers,
        format = format::Format,
        fsm_joint = fsm_joint::FsmJoint,
        judged = judged::JudgedAnswers,
        bridge_answer_recall_at = bridge_answer_recall::BridgeAnswerRecall,
        chunks_with_repeats = chunks_with_repeats::ChunksWithRepeats,
    }
}

fn checked<K: MeasureKey>(field: &'static str, value: &K::Value, profile: Profile) -> Result<Vec<Column>, BadSetting> {
    match value.first_invalid() {
        Some(value) => Err(BadSetting { field, value }),
        None if value.is_off() => Ok(Vec::new()),
        None => Ok(K::build_columns(value, profile)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_written_as_ever() {
        assert_eq!(
            serde_json::to_string(&Settings::default()).unwrap(),
            r#"{"profile":null,"recall_at":[2,5,10,20],"precision_at":[],"ndcg_at":[10],"mrr":true,"mrr_at":[],"#
                .to_owned()
                + r#""map":true,"answer_recall_at":[],"answer_hit_at":[],"budget_recall_at":[],"#
                + r#""chunk_recall":false,"facts":true}"#
        );
    }

    #[test]
    fn unknown_keys_list_the_allowed() {
        let error = serde_json::from_str::<Settings>(r#"{"recal_at": [2]}"#).unwrap_err().to_string();
        let allowed = "unknown field `recal_at`, expected one of `profile`, `recall_at`, `precision_at`, `ndcg_at`, \
                       `mrr`, `mrr_at`, `map`, `answer_recall_at`, `answer_hit_at`, `budget_recall_at`, \
                       `chunk_recall`, `facts`, `migres`, `format`, `fsm_joint`, `judged`, \
                       `bridge_answer_recall_at`, `chunks_with_repeats`";
        assert!(error.starts_with(allowed), "{error}");
    }

    #[test]
    fn cut_offs_are_those_of_all_keys() {
        let largest = |json: &str| serde_json::from_str::<Settings>(json).unwrap().largest_cut_off();
        assert_eq!(largest("{}"), Some(20));
        assert_eq!(largest(r#"{"recall_at": [2], "ndcg_at": [3], "budget_recall_at": [50]}"#), Some(50));
        assert_eq!(largest(r#"{"recall_at": [], "ndcg_at": []}"#), None);
    }

    #[test]
    fn depths_are_positive_and_occur_once() {
        assert_eq!(
            (vec![5, 0].first_invalid(), vec![5, 2, 5].first_invalid(), vec![1, 2].first_invalid()),
            (Some(0), Some(5), None)
        );
    }
}
