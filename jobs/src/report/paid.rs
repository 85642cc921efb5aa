//! What a run's endpoints were paid, and which models answered: from its journal and its last note of spending.
//!
//! Three amounts are never mixed. *Attributed* money is a configuration's, as if nothing were shared. *Incurred* money
//! is that of the answers that the run has journalled, each once, in all of its generations; commits say less, since a
//! kill loses what was not committed. *Unanswered* money is what the endpoints may have been paid beyond that: for
//! calls that were under way at a kill, or whose answers were lost on the way. It is an upper bound.

use crate::error::JobError;
use crate::job::file::Job;
use crate::services::journal_sums::JournalSums;
use crate::spending::cap::NANOS;
use crate::spending::note::SpendingNote;
use hopeval_results::Store;
use hopeval_results::tables::CostRow;
use std::collections::BTreeMap;

/// What the endpoints of a run were paid.
pub struct PaidSums {
    sums: JournalSums,
    /// The last note of spending; runs of earlier versions have none.
    note: Option<SpendingNote>,
    /// By service, those without a price too.
    currencies: BTreeMap<String, Option<String>>,
}

impl PaidSums {
    /// Reads the sums of a run; `None` if none of its services costs money.
    ///
    /// # Errors
    /// The journal or the note cannot be read.
    pub fn read(store: &Store, run: &str, job: &Job) -> Result<Option<Self>, JobError> {
        let paid = job.service.iter().filter(|(_, service)| service.settings().is_paid());
        let currencies: BTreeMap<String, Option<String>> = paid
            .map(|(name, service)| (name.clone(), service.settings().price().map(|price| price.currency.clone())))
            .collect();
        if currencies.is_empty() {
            return Ok(None);
        }
        let note = SpendingNote::read_last(store, run)?;
        let sums = JournalSums::read(store, run, &mut |_| ())?;
        if sums.unreadable > 0 {
            let unreadable = sums.unreadable;
            tracing::warn!(
                run,
                unreadable,
                "what damaged answers cost is not counted; unanswered money has it at most"
            );
        }
        Ok(Some(Self { sums, note, currencies }))
    }

    /// The services that cost money.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.currencies.keys().map(String::as_str)
    }

    /// The row of a service for the whole run, with what its answers say. Rows of other services stay as they are.
    pub fn complete_row(&self, row: CostRow) -> CostRow {
        let Some(currency) = self.currencies.get(&row.service) else { return row };
        let sums = self.sums.services.get(&row.service).copied().unwrap_or_default();
        let allowed = self.note.as_ref().and_then(|note| note.allowed.get(&row.service));
        let unanswered = allowed.map(|allowed| allowed.money_nanos.saturating_sub(sums.money_nanos));
        let priced = |nanos: u64| currency.as_ref().map(|_| nanos as f64 / NANOS);
        let money = Some(sums.money_nanos).filter(|_| sums.unpriced == 0);
        CostRow {
            computed: Some(sums.answers),
            prompt_tokens: sums.prompt_tokens,
            completion_tokens: sums.completion_tokens,
            scored_tokens: sums.scored_tokens,
            money: money.and_then(priced),
            unanswered_money: unanswered.and_then(priced),
            currency: currency.clone(),
            attempts: Some(sums.attempts),
            cached_prompt_tokens: Some(sums.cached_prompt_tokens),
            reasoning_tokens: Some(sums.reasoning_tokens),
            models: self.models_of(&row.service),
            unpriced: Some(sums.unpriced),
            ..row
        }
    }

    /// The models of a service with their answers; `None` if its endpoint names none.
    fn models_of(&self, service: &str) -> Option<String> {
        let named = self.sums.models.iter().filter(|(named, _)| named.service == service);
        let models: Vec<String> = named
            .map(|(named, answers)| format!("{} {answers}", [&*named.model, &*named.fingerprint].join(" ").trim_end()))
            .collect();
        (!models.is_empty()).then(|| models.join(MODEL_SEPARATOR))
    }
}

/// Stands between the models of a row.
const MODEL_SEPARATOR: &str = "; ";

/// The models of a row, if there are several: the endpoint's model or its system changed while the run went on.
pub fn drifting_models(row: &CostRow) -> Option<Vec<&str>> {
    let models: Vec<&str> = row.models.as_deref()?.split(MODEL_SEPARATOR).collect();
    (models.len() > 1).then_some(models)
}
