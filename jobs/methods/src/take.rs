//! Takes the answer of the requested kind out of a response.
//!
//! Every method has the same three cases: the answer is there, the request failed, or a faulty service answered with
//! another kind. The last two are a [`Failure`]: a machine ends with [`crate::Outcome::failed`] or decides otherwise.

use crate::request::{PassageId, RequestKind};
use crate::response::{
    Answer, AnswerSpan, ChunkLabels, Failure, FailureKind, Generation, Response, RetrievalHit, TargetScores,
};

impl Failure {
    /// A service answered with another kind than requested.
    pub fn wrong_kind(asked: RequestKind, got: RequestKind) -> Self {
        let message = format!("asked for {}, got {}", asked.name(), got.name());
        Self { kind: FailureKind::ParseFailure, message }
    }
}

/// One function per kind: the payload of the answer, or the failure.
macro_rules! take {
    ($Kind:ident: $($(#[$doc:meta])* $name:ident: $kind:ident -> $payload:ty;)*) => {
        impl Response {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The request's failure, or [`Failure::wrong_kind`].
                pub fn $name(self) -> Result<$payload, Failure> {
                    match self.result? {
                        Answer::$kind(payload) => Ok(payload),
                        other => Err(Failure::wrong_kind($Kind::$kind, other.kind())),
                    }
                }
            )*
        }
    };
}

take! {
    RequestKind:
    /// The passages of a look-up.
    found: Passages -> Vec<PassageId>;
    /// The links of a passage.
    links: Links -> Vec<PassageId>;
    /// The rows of a scored target.
    scores: Score -> TargetScores;
    /// The labels of a chunk.
    labels: Label -> ChunkLabels;
    /// The next query.
    next_query: Filter -> String;
    /// A relevance per item.
    relevances: Rerank -> Vec<f64>;
    /// The probability of entailment.
    entailment: Entail -> f64;
    /// Answer spans, best first.
    spans: Read -> Vec<AnswerSpan>;
    /// A vector.
    vector: Embed -> Vec<f32>;
    /// A generated text.
    generation: Generate -> Generation;
}

impl Response {
    /// The hits of a retrieval.
    ///
    /// # Errors
    /// The request's failure, [`Failure::wrong_kind`], or a score that is not finite: it could not be ranked or stored.
    pub fn hits(self) -> Result<Vec<RetrievalHit>, Failure> {
        let hits = match self.result? {
            Answer::Retrieve(hits) => hits,
            other => return Err(Failure::wrong_kind(RequestKind::Retrieve, other.kind())),
        };
        match hits.iter().find(|hit| !hit.score.is_finite()) {
            None => Ok(hits),
            Some(RetrievalHit { passage, score }) => {
                let message = format!("the score of passage {passage} is {score}");
                Err(Failure { kind: FailureKind::ParseFailure, message })
            }
        }
    }

    /// The response of a round with one request.
    ///
    /// # Errors
    /// [`FailureKind::Dropped`] if it is missing: the caller of the machine broke the contract.
    pub fn only(responses: Vec<Response>) -> Result<Response, Failure> {
        let lost = || Failure { kind: FailureKind::Dropped, message: "a request has no response".to_owned() };
        responses.into_iter().next().ok_or_else(lost)
    }

    /// The links of a passage for methods that can continue without links. A failure repeated in every run means "no
    /// links". Any other failure is returned: a figure must not depend on chance.
    ///
    /// # Errors
    /// An indeterminate failure (see [`FailureKind::is_determinate`]), or [`Failure::wrong_kind`].
    pub fn links_if_any(self) -> Result<Vec<PassageId>, Failure> {
        match &self.result {
            Err(failure) if failure.kind.is_determinate() => Ok(Vec::new()),
            _ => self.links(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::AnswerWork;

    #[test]
    fn another_kind_is_a_failure_that_names_both() {
        let response = Response::answer(Answer::Links(vec![PassageId(1)]), AnswerWork::default());
        assert_eq!(response.clone().links(), Ok(vec![PassageId(1)]));
        let failure = response.hits().unwrap_err();
        assert_eq!(failure.kind, FailureKind::ParseFailure);
        assert_eq!(failure.message, "asked for retrieve, got links");
    }

    #[test]
    fn a_score_must_be_a_number() {
        let hits = |score| vec![RetrievalHit { passage: PassageId(7), score }];
        let response = |score| Response::answer(Answer::Retrieve(hits(score)), AnswerWork::default());
        assert_eq!(response(-1.0).hits(), Ok(hits(-1.0)));
        let failure = response(f64::NAN).hits().unwrap_err();
        assert_eq!(failure.message, "the score of passage 7 is NaN");
    }

    #[test]
    fn only_determinate_failures_mean_no_links() {
        assert_eq!(Response::failure(FailureKind::Refused, "").links_if_any(), Ok(Vec::new()));
        assert!(Response::failure(FailureKind::TimedOut, "").links_if_any().is_err());
        let wrong = Response::answer(Answer::Entail(1.0), AnswerWork::default());
        assert_eq!(wrong.links_if_any(), Err(Failure::wrong_kind(RequestKind::Links, RequestKind::Entail)));
    }
}
