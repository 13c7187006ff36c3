"""Every family of faults, by name."""

from tests.faults import disturbances, dtypes, fuzz, hostile
from tests.faults.plan import Family

FAMILIES: dict[str, Family] = {
    family.name: family for room in (disturbances, fuzz, hostile, dtypes) for family in room.FAMILIES
}
