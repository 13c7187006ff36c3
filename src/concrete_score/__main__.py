"""``python -m concrete_score`` is ``csm``."""

from concrete_score.cli.main import main

if __name__ == "__main__":
    main()
