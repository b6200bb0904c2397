use elevo_core::Timestamp;

use crate::bounds;
use crate::error::{Error, Kind, Result};
use crate::records::{Review, ReviewChange, ReviewState};

impl ReviewChange {
    /// Returns the review after this change. For implementations: the caller must
    /// hold a lock that prevents other changes of the review.
    pub(crate) fn apply(&self, review: Review, now: Timestamp) -> Result<Review> {
        self.check(&review)?;
        let change = self.clone();
        let opens = self.to == ReviewState::Open;
        let changed = Review {
            state: change.to,
            sides: change.sides.unwrap_or(review.sides),
            detail: change.detail.unwrap_or(review.detail),
            expires: change
                .expires
                .map_or(review.expires, |time| time.map(bounds::truncated)),
            closed: (!opens).then(|| bounds::truncated(now)),
            closed_by: change.by.filter(|_| !opens),
            resolution: change.resolution.filter(|_| !opens),
            successor: change.successor.filter(|_| !opens),
            reopened: review.reopened.saturating_add(opens.into()),
            ..review
        };
        bounds::review(&changed)?;
        Ok(changed)
    }

    fn check(&self, review: &Review) -> Result<()> {
        if review.state != self.from {
            let what = Kind::Review;
            return Err(Error::Changed { what });
        }
        if !self.from.can_become(self.to) {
            let why = format!("a review that is {} cannot become {}", self.from, self.to);
            return Err(Error::Refused(why));
        }
        Ok(())
    }
}
