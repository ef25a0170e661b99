//! Bugs that tests seed into the engine, to see that the model check is able to fail.
//!
//! Outside of tests `bug!(…)` is the literal `false`, and the module does not exist.

#[cfg(test)]
pub(crate) use seeded::Bug;

/// Whether a test has seeded this bug in this thread.
#[cfg(test)]
macro_rules! bug {
    ($bug:ident) => {
        $crate::rollout::bug::Bug::$bug.is_seeded()
    };
}

/// Whether a test has seeded this bug: never.
#[cfg(not(test))]
macro_rules! bug {
    ($bug:ident) => {
        false
    };
}

#[cfg(test)]
mod seeded {
    use std::cell::Cell;

    thread_local! {
        static SEEDED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// A bug the engine could have; the model check must catch each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Bug {
        /// Health of another hash counts.
        NoFence,
        /// A size above the total is 0, as in OCM.
        OversizedIsZero,
        /// A failed cluster keeps its slot.
        FailureHoldsSlot,
        /// A timed-out cluster keeps its slot.
        TimeoutHoldsSlot,
        /// Clusters that were moved but not heard of hold no slot.
        UnobservedIsFree,
        /// Soaking clusters hold no slot.
        SoakIsFree,
        /// One slot too many.
        OneSlotTooMany,
        /// A group starts while the one before has clusters in flight.
        GroupsOverlap,
        /// Failures are counted in the first stage only.
        CountsFirstStageOnly,
        /// The budget is exceeded one failure late.
        BreachOneLate,
        /// Timeouts are no failures.
        TimeoutIsNoFailure,
        /// A breach stops nothing.
        BreachIsIgnored,
        /// A pause stops nothing.
        PauseIsIgnored,
        /// A missing approval stops nothing.
        ApprovalIsIgnored,
        /// A freeze stops nothing.
        FreezeIsIgnored,
        /// A quarantined hash is rolled out again.
        QuarantineIsForgotten,
        /// A cluster on the quarantined hash is left there.
        RollbackIsForgotten,
        /// A waiting cluster is assigned what it should run although its turn has not come.
        AssignsEarly,
        /// Unreachable clusters hold their slots.
        UnreachableHoldsSlot,
        /// The unreachable budget stops nothing.
        UnreachableIsUnlimited,
        /// Clusters that left are removed whatever their number.
        RemovalIsUnlimited,
        /// Clusters that joined late are waited for.
        NewcomersAreWaitedFor,
        /// A new revision does not let the current one finish.
        DoesNotFinishCurrent,
    }

    impl Bug {
        pub(crate) const ALL: [Self; 23] = [
            Self::NoFence,
            Self::OversizedIsZero,
            Self::FailureHoldsSlot,
            Self::TimeoutHoldsSlot,
            Self::UnobservedIsFree,
            Self::SoakIsFree,
            Self::OneSlotTooMany,
            Self::GroupsOverlap,
            Self::CountsFirstStageOnly,
            Self::BreachOneLate,
            Self::TimeoutIsNoFailure,
            Self::BreachIsIgnored,
            Self::PauseIsIgnored,
            Self::ApprovalIsIgnored,
            Self::FreezeIsIgnored,
            Self::QuarantineIsForgotten,
            Self::RollbackIsForgotten,
            Self::AssignsEarly,
            Self::UnreachableHoldsSlot,
            Self::UnreachableIsUnlimited,
            Self::RemovalIsUnlimited,
            Self::NewcomersAreWaitedFor,
            Self::DoesNotFinishCurrent,
        ];

        pub(crate) fn is_seeded(self) -> bool {
            SEEDED.get() == Some(self)
        }

        /// Runs `f` in this thread with the bug in the engine.
        pub(crate) fn seed<T>(self, f: impl FnOnce() -> T) -> T {
            SEEDED.set(Some(self));
            let result = f();
            SEEDED.set(None);
            result
        }
    }
}
