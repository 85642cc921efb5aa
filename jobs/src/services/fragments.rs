//! The texts of prompts' fragments, known to every process by their digests.

use hopeval_endpoint::SharedText;
use hopeval_methods::fragment::{Fragment, FragmentDigest};
use hopeval_methods::{Failure, FailureKind, Method};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The texts of fragments, shared by the services of a catalogue. Services are opened before methods are configured, so
/// texts are added later, but before the first request.
#[derive(Clone, Debug, Default)]
pub struct FragmentTexts(Arc<RwLock<BTreeMap<FragmentDigest, SharedText>>>);

impl FragmentTexts {
    /// Adds the fragments of methods.
    pub fn add_methods<'a>(&self, methods: impl IntoIterator<Item = &'a dyn Method>) {
        let fragments: Vec<Fragment> = methods.into_iter().flat_map(Method::fragments).collect();
        if fragments.is_empty() {
            return;
        }
        // A panic elsewhere leaves only whole entries behind.
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        texts.extend(
            fragments.into_iter().map(|fragment| (fragment.digest(), SharedText::new(Arc::clone(fragment.text())))),
        );
    }

    /// The text of a fragment.
    ///
    /// # Errors
    /// [`FailureKind::Unavailable`] for an unknown digest: its method does not name it among its fragments. A mended
    /// method has the same keys, so the failure is for this run alone.
    pub fn text(&self, digest: FragmentDigest) -> Result<SharedText, Failure> {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        texts.get(&digest).cloned().ok_or_else(|| {
            let message = format!("no method of this run has the text of the fragment {digest}: this is a bug in one");
            Failure { kind: FailureKind::Unavailable, message }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::testing::EveryKind;

    #[test]
    fn an_unknown_fragment_is_refused_by_name() {
        let texts = FragmentTexts::default();
        let known = EveryKind::default().fragments();
        let digest = known[0].digest();
        let failure = texts.text(digest).expect_err("nothing was added");
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.message.contains(&digest.to_string()), "{}", failure.message);
        texts.add_methods([&EveryKind::default() as &dyn Method]);
        assert_eq!(texts.text(digest).as_ref().map(SharedText::text), Ok(known[0].text()));
    }
}
