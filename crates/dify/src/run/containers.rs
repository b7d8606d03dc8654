//! Iterations and loops: rounds are started as there is room, and gathered as they end.

use super::Event;
use super::frame::Frame;
use super::machine::{Machine, Task, merge};
use crate::graph::Place;
use crate::node::NodeKind;
use crate::node::flow::{Iteration, Loop};
use crate::step::rounds::{self, RoundEnd};
use crate::step::{Failure, Outcome};
use crate::value::Value;

/// A container that waits for its rounds.
pub(super) enum Container {
    Iteration { items: Vec<Value>, ends: Vec<Option<RoundEnd>>, started: usize, failed: bool },
    Loop { rounds: usize, broke: bool },
}

/// How a container goes on.
pub(super) enum Resume {
    /// Start these rounds.
    Rounds(Vec<usize>),
    /// It has ended.
    End(Result<Outcome, Failure>),
}

impl Machine<'_> {
    /// Starts a container; its outcome, if there is nothing to wait for.
    pub(super) fn start_container(
        &mut self,
        frame: usize,
        place: Place,
    ) -> Result<Option<Outcome>, Failure> {
        let node = self.graph().node(place);
        let too_many = |rounds: usize, most: usize| {
            let message = format!("{rounds} rounds are more than {most}");
            Err(Failure::new("RoundLimit", message))
        };
        let most = self.limits.rounds;
        match &node.kind {
            NodeKind::Iteration(iteration) => {
                let items = match rounds::items(iteration, self.frames.pool(frame))? {
                    Ok(items) if items.len() > most => return too_many(items.len(), most),
                    Ok(items) => items,
                    Err(outcome) => {
                        self.emit(Event::RoundsStarted { node: place, rounds: 0 });
                        self.emit(Event::RoundsSucceeded { node: place });
                        return Ok(Some(outcome));
                    }
                };
                self.emit(Event::RoundsStarted { node: place, rounds: items.len() });
                let first = (0..iteration.at_once.min(items.len())).collect::<Vec<_>>();
                let ends = items.iter().map(|_| None).collect();
                let container =
                    Container::Iteration { items, ends, started: first.len(), failed: false };
                self.containers.insert((frame, place), container);
                self.start_rounds(frame, place, &first);
            }
            NodeKind::Loop(repeat) => {
                let count = usize::try_from(repeat.rounds).unwrap_or(usize::MAX);
                if count > most {
                    return too_many(count, most);
                }
                rounds::start_loop(repeat, &node.id, self.frames.pool_mut(frame))?;
                self.emit(Event::RoundsStarted { node: place, rounds: count });
                if rounds::ends_before(repeat, self.frames.pool(frame)) {
                    self.emit(Event::RoundsSucceeded { node: place });
                    return Ok(Some(Outcome::default()));
                }
                let container = Container::Loop { rounds: 0, broke: false };
                self.containers.insert((frame, place), container);
                self.start_round(frame, place, 0);
            }
            _ => return Ok(Some(Outcome::default())),
        }
        Ok(None)
    }

    pub(super) fn resume(&mut self, frame: usize, place: Place, resume: Resume) {
        match resume {
            Resume::Rounds(numbers) => self.start_rounds_next(frame, place, &numbers),
            Resume::End(end) => {
                self.containers.remove(&(frame, place));
                match end {
                    Ok(outcome) => {
                        self.emit(Event::RoundsSucceeded { node: place });
                        self.complete(frame, place, outcome);
                    }
                    Err(failure) => {
                        self.emit(Event::RoundsFailed { node: place });
                        self.failed(frame, place, failure);
                    }
                }
            }
        }
    }

    fn start_rounds_next(&mut self, frame: usize, place: Place, numbers: &[usize]) {
        match &self.graph().node(place).kind {
            NodeKind::Loop(repeat) => {
                let round = numbers.first().copied().unwrap_or(0);
                self.emit(Event::RoundNext { node: place, round });
                if rounds::ends_before(repeat, self.frames.pool(frame)) {
                    let end = self.loop_end(frame, place, repeat);
                    self.queue.push_back(Task::Resume(frame, place, Resume::End(end)));
                } else {
                    self.start_round(frame, place, round);
                }
            }
            _ if self.gives_up(frame, place, numbers) => {}
            _ => self.start_rounds(frame, place, numbers),
        }
    }

    /// Whether rounds must not start any more, because one has failed meanwhile.
    fn gives_up(&mut self, frame: usize, place: Place, numbers: &[usize]) -> bool {
        let NodeKind::Iteration(iteration) = &self.graph().node(place).kind else { return false };
        let Some(Container::Iteration { ends, started, failed: true, .. }) =
            self.containers.get_mut(&(frame, place))
        else {
            return false;
        };
        *started -= numbers.len();
        if ends.iter().filter(|end| end.is_some()).count() == *started {
            let ends = ends.iter_mut().filter_map(Option::take).collect();
            let resume = Resume::End(rounds::iteration_outcome(iteration, ends));
            self.queue.push_back(Task::Resume(frame, place, resume));
        }
        true
    }

    /// Starts rounds of an iteration.
    fn start_rounds(&mut self, frame: usize, place: Place, numbers: &[usize]) {
        for round in numbers {
            self.emit(Event::RoundNext { node: place, round: *round });
        }
        for round in numbers {
            self.start_round(frame, place, *round);
        }
    }

    fn start_round(&mut self, frame: usize, place: Place, round: usize) {
        let (graph, node) = (self.graph(), self.graph().node(place));
        let item = match self.containers.get(&(frame, place)) {
            Some(Container::Iteration { items, .. }) => items.get(round).cloned(),
            _ => None,
        };
        let pool = match item {
            Some(item) => Some(rounds::round_pool(self.frames.pool(frame), &node.id, round, &item)),
            None => {
                rounds::clear_round(graph, &node.id, self.frames.pool_mut(frame));
                None
            }
        };
        let Some(first) = node.kind.first_inside().and_then(|id| graph.place(id)) else { return };
        let inner = self.frames.open(Frame::round(graph, first, (frame, place, round), pool));
        self.enqueue(inner, first);
    }

    /// Whether a round has ended, and what follows from it.
    pub(super) fn check_frame(&mut self, number: usize) {
        let frame = self.frames.get(number);
        let Some((parent, place, round)) = frame.parent else { return };
        if frame.unfinished > 0 {
            return;
        }
        match &self.graph().node(place).kind {
            NodeKind::Iteration(iteration) => {
                self.end_of_iteration_round(iteration, number, parent, place, round);
            }
            NodeKind::Loop(repeat) => self.end_of_loop_round(repeat, number, parent, place),
            _ => {}
        }
    }

    fn end_of_iteration_round(
        &mut self,
        iteration: &Iteration,
        number: usize,
        parent: usize,
        place: Place,
        round: usize,
    ) {
        // What a round did to the conversation stays.
        let pool = self.frames.pool(number).clone();
        self.frames.pool_mut(parent).take_over(&pool, "conversation");
        let Some(frame) = self.frames.close(number) else { return };
        let end = match frame.failures.into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(rounds::round_output(iteration, &pool)),
        };
        let Some(Container::Iteration { items, ends, started, failed }) =
            self.containers.get_mut(&(parent, place))
        else {
            return;
        };
        let is_last = round + 1 == items.len();
        if end.is_ok() && is_last {
            merge(&mut self.frames.get_mut(parent).outputs, frame.outputs);
        }
        *failed |= rounds::ends_iteration(iteration, &end);
        ends[round] = Some(end);
        let ended = ends.iter().filter(|end| end.is_some()).count();
        let resume = match (*failed, ended == *started, *started == items.len()) {
            // Rounds that run go on; no more are started.
            (true, false, _) => return,
            (true, true, _) | (false, true, true) => {
                // Of a failed iteration, the rounds that ran in the order of the items.
                let ends = ends.iter_mut().filter_map(Option::take).collect();
                Resume::End(rounds::iteration_outcome(iteration, ends))
            }
            (false, false, true) => return,
            (false, _, false) => {
                let room = iteration.at_once.saturating_sub(*started - ended);
                let next = *started..(*started + room).min(items.len());
                // They count from now on, though others may end before they start.
                *started = next.end;
                Resume::Rounds(next.collect())
            }
        };
        self.queue.push_back(Task::Resume(parent, place, resume));
    }

    fn end_of_loop_round(&mut self, repeat: &Loop, number: usize, parent: usize, place: Place) {
        let Some(frame) = self.frames.close(number) else { return };
        let failure = frame.failures.into_iter().next();
        if failure.is_none() {
            merge(&mut self.frames.get_mut(parent).outputs, frame.outputs);
        }
        let Some(Container::Loop { rounds: done, broke }) =
            self.containers.get_mut(&(parent, place))
        else {
            return;
        };
        *done += 1;
        *broke |= frame.broke;
        let (done, broke) = (*done, *broke);
        let count = usize::try_from(repeat.rounds).unwrap_or(usize::MAX);
        let ends = match failure {
            Some(failure) => Err(failure),
            None if broke => Ok(true),
            None => rounds::ends_after(repeat, self.frames.pool(parent)),
        };
        let resume = match ends {
            Err(failure) => Resume::End(Err(failure)),
            Ok(true) => Resume::End(self.loop_end(parent, place, repeat)),
            Ok(false) if done >= count => Resume::End(self.loop_end(parent, place, repeat)),
            Ok(false) => Resume::Rounds(vec![done]),
        };
        self.queue.push_back(Task::Resume(parent, place, resume));
    }

    fn loop_end(&self, frame: usize, place: Place, repeat: &Loop) -> Result<Outcome, Failure> {
        let done = match self.containers.get(&(frame, place)) {
            Some(Container::Loop { rounds, .. }) => *rounds,
            _ => 0,
        };
        rounds::loop_outcome(repeat, &self.graph().node(place).id, done, self.frames.pool(frame))
    }
}
