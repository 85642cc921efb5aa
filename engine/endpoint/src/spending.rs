//! Spending: amounts, the bill of an attempt, and the run's permission for its bound.
//!
//! A server may be paid for an attempt that it never answered. So each attempt has a bound before it is sent, and one
//! of three bills at its end: what the server counted, nothing, or unknown, and then the bound stands.

use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The cost of attempts, or its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentAmounts {
    /// HTTP requests that the server answered, or may have.
    pub calls: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Billionths of the currency's unit.
    pub money_nanos: u64,
}

impl SpentAmounts {
    /// Whether no figure is larger than the other's.
    pub fn fits_in(&self, other: &Self) -> bool {
        self.calls <= other.calls && self.tokens <= other.tokens && self.money_nanos <= other.money_nanos
    }

    /// Each figure of two by a function.
    #[must_use]
    pub fn join(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            calls: join(self.calls, other.calls),
            tokens: join(self.tokens, other.tokens),
            money_nanos: join(self.money_nanos, other.money_nanos),
        }
    }
}

impl Add for SpentAmounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.join(other, u64::saturating_add)
    }
}

impl AddAssign for SpentAmounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SpentAmounts {
    type Output = Self;

    /// The difference; 0 where the other figure is larger.
    fn sub(self, other: Self) -> Self {
        self.join(other, u64::saturating_sub)
    }
}

impl SubAssign for SpentAmounts {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The bill of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptBill {
    /// The server counted it.
    Counted(SpentAmounts),
    /// It was not sent, or the server refused it before it computed anything.
    Nothing,
    /// It may have been computed, and no answer says so: the bound stands.
    Unanswered,
}

/// The run's permission to spend the bound of one attempt. Dropped without a bill, the bound stands.
pub struct SpendingPermit(Option<Box<dyn FnOnce(AttemptBill) + Send>>);

impl SpendingPermit {
    /// A permission that gives the attempt's bill to `settle`, once.
    pub fn new(settle: impl FnOnce(AttemptBill) + Send + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// The attempt has ended.
    pub fn settle(mut self, bill: AttemptBill) {
        if let Some(settle) = self.0.take() {
            settle(bill);
        }
    }
}

impl Drop for SpendingPermit {
    fn drop(&mut self) {
        if let Some(settle) = self.0.take() {
            settle(AttemptBill::Unanswered);
        }
    }
}

/// Takes a permission, at once or later, on any thread.
pub type PermitReceiver = Box<dyn FnOnce(SpendingPermit) + Send>;

/// Asked before each attempt for its bound. It gives the permission when the run may spend so much, and drops the
/// receiver when it never may: then the call is kept.
pub type SpendingRequest = Arc<dyn Fn(SpentAmounts, PermitReceiver) + Send + Sync>;

/// Waits for the permission to spend `most`; `None` if it never comes.
pub(crate) async fn await_permit(ask: &SpendingRequest, most: SpentAmounts) -> Option<SpendingPermit> {
    let (sender, receiver) = oneshot::channel();
    ask(
        most,
        Box::new(move |permit| {
            if let Err(permit) = sender.send(permit) {
                // The call is gone: nothing was sent.
                permit.settle(AttemptBill::Nothing);
            }
        }),
    );
    receiver.await.ok()
}
