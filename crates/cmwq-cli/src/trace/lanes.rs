//! Lanes: where spans that may overlap lie side by side, each in the first lane that is free.

/// The lanes of one track.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    taken: Vec<bool>,
}

impl Lanes {
    /// The first free lane, and whether it is a new one.
    pub(super) fn take(&mut self) -> (usize, bool) {
        match self.taken.iter().position(|taken| !taken) {
            Some(lane) => {
                self.taken[lane] = true;
                (lane, false)
            }
            None => {
                self.taken.push(true);
                (self.taken.len() - 1, true)
            }
        }
    }

    pub(super) fn give_back(&mut self, lane: usize) {
        if let Some(taken) = self.taken.get_mut(lane) {
            *taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_lane_is_taken() {
        let mut lanes = Lanes::default();
        assert_eq!([lanes.take(), lanes.take(), lanes.take()], [(0, true), (1, true), (2, true)]);
        lanes.give_back(1);
        lanes.give_back(9);
        assert_eq!([lanes.take(), lanes.take()], [(1, false), (3, true)]);
    }
}
