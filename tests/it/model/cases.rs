//! Lists that once failed, or that stand for an incident: run every time, whatever chance brings.

use super::Step::{
    self, ApiDown, CrashBeforeSend, CrashIdle, CrashInFetch, CrashInSend, Drain, End, Forget, Pass,
    Reconcile, Register, Replay, Send, SinkDown, Tell, Work,
};
use super::run::run;

#[test]
fn a_webhook_that_comes_before_its_registration() {
    run(&[End(0, true), Tell(0, 0), Work, Register(0), Work, Send]);
}

#[test]
fn a_webhook_that_comes_before_the_operation_is_visible() {
    run(&[
        Forget(0, true),
        Tell(0, 0),
        Work,
        Pass(30),
        End(0, true),
        Forget(0, false),
    ]);
}

#[test]
fn a_lie_about_a_running_operation() {
    run(&[Register(0), Tell(0, 0), Work, Send, Drain, End(0, false)]);
}

#[test]
fn duplicates_and_a_replay_after_the_end() {
    let twice: Vec<Step> = vec![
        Register(0),
        End(0, true),
        Tell(0, 0),
        Work,
        Send,
        Tell(0, 0),
        Tell(0, 1),
        Replay(0),
        Work,
        Send,
    ];
    run(&twice);
}

#[test]
fn crashes_in_every_phase_of_one_operation() {
    run(&[
        Register(0),
        CrashIdle,
        End(0, true),
        Tell(0, 0),
        CrashInFetch,
        Work,
        CrashBeforeSend,
        CrashInSend,
        Send,
        CrashIdle,
        Reconcile,
        Send,
    ]);
}

#[test]
fn an_outage_on_both_sides() {
    run(&[
        Register(0),
        Register(1),
        ApiDown(true),
        SinkDown(true),
        End(0, true),
        End(1, false),
        Tell(0, 0),
        Work,
        Pass(59),
        Work,
        ApiDown(false),
        Pass(59),
        Reconcile,
        Work,
        Send,
        Pass(59),
        Send,
    ]);
}

#[test]
fn forgotten_for_good_and_found_again() {
    run(&[
        Register(0),
        Forget(0, true),
        Drain,
        Forget(0, false),
        End(0, true),
    ]);
}

#[test]
fn forgotten_after_it_settled() {
    run(&[
        End(0, false),
        Tell(0, 0),
        Work,
        Forget(0, true),
        Drain,
        Send,
    ]);
}
