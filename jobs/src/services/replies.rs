//! Answers for one asker: at its own temperatures, with the texts of requested passages.

use hopeval_corpus::{Corpus, PassageId};
use hopeval_methods::request::PassageId as Asked;
use hopeval_methods::response::TargetScores;
use hopeval_methods::{Answer, FailureKind, PassageText, Request, RequestPayload, Response};

/// The response for the asker of `request`: a score at its own temperatures, without those of other askers.
pub(crate) fn own_response(response: &Response, request: &Request) -> Response {
    if !response.satisfies(request) {
        let message =
            "an answer was shared with a request for a temperature that its method does not name: this is a bug";
        return Response::failure(FailureKind::Refused, message);
    }
    let (RequestPayload::Score(score), Ok(Answer::Score(found))) = (&request.ask, &response.result) else {
        return response.clone();
    };
    // A sweep has millions of answers, so temperatures of other askers are never copied.
    let sums = found.log_sum_exps.iter().filter(|(temperature, _)| score.temperatures.contains(temperature));
    let scores = TargetScores { logits: found.logits.clone(), log_sum_exps: sums.cloned().collect(), ends: found.ends };
    let Response { result: _, work, facts, run_only, prompt, passages } = response;
    Response {
        result: Ok(Answer::Score(scores)),
        work: *work,
        facts: facts.clone(),
        run_only: *run_only,
        prompt: prompt.clone(),
        passages: passages.clone(),
    }
}

/// Fills in the texts of an answer's passages.
pub fn read_texts(corpus: &Corpus, response: &mut Response) {
    let Ok(answer) = &response.result else { return };
    response.passages = answer.passages().into_iter().map(|id| passage_text(corpus, id)).collect();
}

/// A passage as machines read it.
pub(super) fn passage_text(corpus: &Corpus, id: Asked) -> PassageText {
    let passage = PassageId(id.0);
    let sentences = corpus.sentence_ends(passage).to_vec();
    PassageText { sentences, ..PassageText::new(id, corpus.title(passage), corpus.text(passage)) }
}
