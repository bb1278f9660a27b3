//! A multilayer perceptron with hand-written back-propagation: plain f32 loops, no library.
//!
//! Hidden layers apply tanh, which is smooth, so that gradients can be checked against finite
//! differences; the last layer gives logits, judged by softmax and cross-entropy. Knows
//! neither where points come from nor how often it is trained.

use crate::rng::Generator;

/// One fully connected layer, or the gradient of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// `weights[input * outputs + output]`, so that inner loops run along memory.
    pub(crate) weights: Vec<f32>,
    /// One for each output.
    pub(crate) biases: Vec<f32>,
}

impl Layer {
    fn zero(inputs: usize, outputs: usize) -> Self {
        Self { weights: vec![0.0; inputs * outputs], biases: vec![0.0; outputs] }
    }

    fn forward(&self, input: &[f32], output: &mut [f32]) {
        output.copy_from_slice(&self.biases);
        for (x, row) in input.iter().zip(self.weights.chunks_exact(output.len())) {
            add_scaled(output, row, *x);
        }
    }

    /// Adds this layer's share of the gradient, given the loss's slope at its outputs.
    fn accumulate(&mut self, input: &[f32], slope: &[f32]) {
        add_scaled(&mut self.biases, slope, 1.0);
        for (x, row) in input.iter().zip(self.weights.chunks_exact_mut(slope.len())) {
            add_scaled(row, slope, *x);
        }
    }

    /// The loss's slope at the inputs of this layer, where `input` came out of tanh.
    fn slope_before(&self, input: &[f32], slope: &[f32], before: &mut [f32]) {
        let rows = self.weights.chunks_exact(slope.len());
        for ((before, x), row) in before.iter_mut().zip(input).zip(rows) {
            let dot: f32 = row.iter().zip(slope).map(|(weight, slope)| weight * slope).sum();
            *before = dot * (1.0 - x * x);
        }
    }

    fn parameters_mut(&mut self) -> impl Iterator<Item = &mut f32> {
        self.weights.iter_mut().chain(&mut self.biases)
    }

    fn parameters(&self) -> impl Iterator<Item = &f32> {
        self.weights.iter().chain(&self.biases)
    }
}

fn add_scaled(sum: &mut [f32], row: &[f32], factor: f32) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum += factor * x;
    }
}

/// The network.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    sizes: Vec<usize>,
    pub(crate) layers: Vec<Layer>,
}

/// The slope of a summed loss along every parameter of one network.
#[derive(Clone, Debug)]
pub struct Gradient {
    layers: Vec<Layer>,
    examples: usize,
}

/// What one example leaves behind in every layer; kept between examples to spare allocations.
#[derive(Clone, Debug)]
pub struct Scratch {
    outputs: Vec<Vec<f32>>,
    slopes: Vec<Vec<f32>>,
}

impl Network {
    /// All zeros; `sizes` are the widths from input to output, at least two of them.
    #[must_use]
    pub fn zero(sizes: &[usize]) -> Self {
        let layers = sizes.windows(2).map(|pair| Layer::zero(pair[0], pair[1])).collect();
        Self { sizes: sizes.to_vec(), layers }
    }

    /// Random weights scaled to the width of their layer (Glorot and Bengio, 2010).
    #[must_use]
    pub fn random(sizes: &[usize], rng: &mut Generator) -> Self {
        let mut network = Self::zero(sizes);
        for (layer, pair) in network.layers.iter_mut().zip(sizes.windows(2)) {
            let scale = (2.0 / (pair[0] + pair[1]) as f32).sqrt();
            layer.weights.iter_mut().for_each(|weight| *weight = scale * rng.normal());
        }
        network
    }

    /// The widths from input to output.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Every weight and bias, layer by layer.
    pub fn parameters(&self) -> impl Iterator<Item = &f32> {
        self.layers.iter().flat_map(Layer::parameters)
    }

    /// The same, to be changed.
    pub fn parameters_mut(&mut self) -> impl Iterator<Item = &mut f32> {
        self.layers.iter_mut().flat_map(Layer::parameters_mut)
    }

    /// A gradient of this network's shape, all zeros.
    #[must_use]
    pub fn gradient(&self) -> Gradient {
        Gradient { layers: Self::zero(&self.sizes).layers, examples: 0 }
    }

    /// Room for one example's way through this network.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let room: Vec<Vec<f32>> = self.sizes[1..].iter().map(|size| vec![0.0; *size]).collect();
        Scratch { outputs: room.clone(), slopes: room }
    }

    /// The logits for one input.
    pub fn logits<'a>(&self, input: &[f32], scratch: &'a mut Scratch) -> &'a [f32] {
        let last = self.layers.len() - 1;
        for (n, layer) in self.layers.iter().enumerate() {
            let (before, after) = scratch.outputs.split_at_mut(n);
            let input = before.last().map_or(input, Vec::as_slice);
            layer.forward(input, &mut after[0]);
            if n < last {
                after[0].iter_mut().for_each(|x| *x = x.tanh());
            }
        }
        &scratch.outputs[last]
    }

    /// Adds one example's slope to `gradient` and tells its loss.
    pub fn learn(
        &self,
        input: &[f32],
        class: usize,
        scratch: &mut Scratch,
        gradient: &mut Gradient,
    ) -> f32 {
        let loss = cross_entropy(self.logits(input, scratch), class);
        let Scratch { outputs, slopes } = scratch;
        let last = self.layers.len() - 1;
        softmax_slope(&outputs[last], class, &mut slopes[last]);
        for n in (0..=last).rev() {
            let (before, after) = slopes.split_at_mut(n);
            let input = if n == 0 { input } else { &outputs[n - 1] };
            gradient.layers[n].accumulate(input, &after[0]);
            if let Some(before) = before.last_mut() {
                self.layers[n].slope_before(input, &after[0], before);
            }
        }
        gradient.examples += 1;
        loss
    }

    /// One step down the mean of `gradient`, which is empty afterwards.
    pub fn descend(&mut self, gradient: &mut Gradient, rate: f32) {
        let factor = rate / gradient.examples.max(1) as f32;
        for (parameter, slope) in self.parameters_mut().zip(gradient.slopes_mut()) {
            *parameter -= factor * *slope;
            *slope = 0.0;
        }
        gradient.examples = 0;
    }
}

impl Gradient {
    /// The summed slopes, in the order of [`Network::parameters`].
    pub fn slopes_mut(&mut self) -> impl Iterator<Item = &mut f32> {
        self.layers.iter_mut().flat_map(Layer::parameters_mut)
    }
}

/// Minus the logarithm of the probability that softmax gives to `class`.
#[must_use]
pub fn cross_entropy(logits: &[f32], class: usize) -> f32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    sum.ln() + largest - logits[class]
}

/// The class with the largest logit.
#[must_use]
pub fn likeliest(logits: &[f32]) -> usize {
    let logits = logits.iter().enumerate();
    logits.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(class, _)| class)
}

fn softmax_slope(logits: &[f32], class: usize, slope: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    for (slope, logit) in slope.iter_mut().zip(logits) {
        *slope = (logit - largest).exp() / sum;
    }
    slope[class] -= 1.0;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: [usize; 4] = [2, 5, 4, 3];
    /// Wide enough that f32 can tell the two losses apart, narrow enough to be a slope.
    const STEP: f32 = 1e-2;

    fn loss(network: &Network, input: &[f32], class: usize) -> f32 {
        cross_entropy(network.logits(input, &mut network.scratch()), class)
    }

    fn finite_difference(network: &Network, nth: usize, input: &[f32], class: usize) -> f32 {
        let moved = |by: f32| {
            let mut network = network.clone();
            *network.parameters_mut().nth(nth).unwrap() += by;
            loss(&network, input, class)
        };
        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
    }

    proptest! {
        #[test]
        fn gradients_equal_finite_differences(
            seed: u64,
            input in prop::array::uniform2(-2.0_f32..2.0),
            class in 0_usize..3,
        ) {
            let network = Network::random(&SIZES, &mut Generator::new(seed, 0));
            let mut gradient = network.gradient();
            network.learn(&input, class, &mut network.scratch(), &mut gradient);
            for (nth, slope) in gradient.slopes_mut().enumerate() {
                let expected = finite_difference(&network, nth, &input, class);
                let tolerance = 2e-3 + 0.01 * expected.abs();
                prop_assert!((*slope - expected).abs() < tolerance, "{nth}: {slope} {expected}");
            }
        }

        #[test]
        fn one_small_step_lowers_the_loss(seed: u64, class in 0_usize..3) {
            let mut network = Network::random(&SIZES, &mut Generator::new(seed, 0));
            let mut gradient = network.gradient();
            let before = network.learn(&[0.3, -0.4], class, &mut network.scratch(), &mut gradient);
            network.descend(&mut gradient, 0.01);
            prop_assert!(loss(&network, &[0.3, -0.4], class) < before);
        }
    }

    #[test]
    fn logits_of_a_network_worked_out_by_hand() {
        let mut network = Network::zero(&[2, 1, 2]);
        network.layers[0] = Layer { weights: vec![1.0, -2.0], biases: vec![0.5] };
        network.layers[1] = Layer { weights: vec![3.0, -1.0], biases: vec![0.0, 0.25] };
        let hidden = 1.0_f32.tanh();
        let mut scratch = network.scratch();
        assert_eq!(network.logits(&[1.5, 0.5], &mut scratch), [3.0 * hidden, 0.25 - hidden]);
        assert_eq!(likeliest(network.logits(&[1.5, 0.5], &mut scratch)), 0);
        assert_eq!(likeliest(network.logits(&[-1.5, 0.5], &mut scratch)), 1);
    }

    #[test]
    fn huge_logits_do_not_overflow_the_loss() {
        assert_eq!(cross_entropy(&[1e30, 0.0], 0), 0.0);
        assert_eq!(cross_entropy(&[1e30, 0.0], 1), 1e30);
    }
}
