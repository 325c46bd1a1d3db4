"""The experiments of the paper, one script each. A script writes its numbers to CSV files and draws figures from them.

    python -m experiments.random_noise --data DIR
    amends reproduce random-noise --data DIR
    python -m experiments.all --data DIR

`protocol.py` defines how a model comes to fail, `sets.py` what the paper leaves open for each data set. Everything but
the figures needs torch and numpy alone. A GPU is used if there is one.
"""

ITEMS = {  # one script each; a hyphen here is an underscore in the file name
    "annotation-noise": "Fig. 2: flipped labels, and which method finds them",
    "causes": "Fig. 3: fine-tuning without the causes, more and more of them",
    "random-noise": "Fig. 4 a, b: noisy images that do little harm; does a method avoid them?",
    "poisoning": "Fig. 4 c, d: adversarial images that do harm; does a method find them?",
    "sample-efficiency": "Appendix: fewer and fewer failures to search with",
    "trade-off": "Fig. 5: EWC-deletion and Newton removal over their step size",
    "forget-and-learn": "Appendix: learning from the failures, forgetting the causes, or both",
    "speed": "Appendix, table: seconds to find the causes",
    "specificity": "Causes of one kind of failure, and what removing them does to the others",
}
