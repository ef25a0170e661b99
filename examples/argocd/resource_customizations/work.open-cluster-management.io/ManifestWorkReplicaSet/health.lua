local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

-- Whether a condition has a status, and is about the present spec where it says what it is about.
local function is(type, status)
  local condition = conditions[type]
  if condition == nil or condition.status ~= status then
    return false
  end
  local observed = condition.observedGeneration
  return observed == nil or observed == 0 or observed >= (obj.metadata.generation or 0)
end

local function health(status, type, otherwise)
  local condition = conditions[type]
  local message = otherwise
  if condition ~= nil and condition.message ~= nil and condition.message ~= "" then
    message = condition.message
  end
  return { status = status, message = message }
end

if is("Stalled", "True") then
  return health("Degraded", "Stalled", "the rollout failed")
end
if is("PlacementVerified", "False") then
  -- A placement that selects no cluster is no fault of the set.
  local status = conditions["PlacementVerified"].reason == "PlacementDecisionEmpty" and "Suspended" or "Degraded"
  return health(status, "PlacementVerified", conditions["PlacementVerified"].reason)
end
if not is("PlacementVerified", "True") then
  return { status = "Progressing", message = "the placements have not been read" }
end
local summary = obj.status.summary or {}
local unexpected = is("ManifestworkApplied", "False") and conditions["ManifestworkApplied"].reason == "NotAsExpected"
if is("PlacementRolledOut", "False") then
  -- OCM's controller sets no condition Stalled, and NotAsExpected while works wait for their turn.
  if unexpected and conditions["Stalled"] == nil and (summary.degraded or 0) > 0 then
    return health("Degraded", "ManifestworkApplied", "works are degraded")
  end
  return health("Progressing", "PlacementRolledOut", "the set is being rolled out")
end
if unexpected then
  return health("Degraded", "ManifestworkApplied", "works are not as expected")
end
if is("ManifestworkApplied", "True") and (summary.available or 0) == (summary.total or 0) then
  return health("Healthy", "ManifestworkApplied", "the works are available")
end
return health("Progressing", "ManifestworkApplied", "works are being applied")
